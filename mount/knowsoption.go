package mount

// KnowsOption reports whether the kernel would take an option without a value, such as
// "noswap", for a file system of a type, such as "tmpfs", from this process as it is
// now. It asks the kernel, by fsopen(2) and fsconfig(2), and makes no file system.
//
// False is also what nobody knows: where the calls are not to be had (before Linux 5.2,
// or by a system call filter), where the type is not known, for a process that may not
// mount, and on other systems than Linux. What an option is refused for is not told
// apart: tmpfs has "noswap" since Linux 6.4, and has it in the initial user namespace
// alone. File systems that read their options only when they are mounted take anything
// here. Flags of the mount ("nosuid") are no options of a file system.
//
// Each call asks anew, and waits for nobody, but for the module of the file system
// if the kernel has to load it. It is safe for concurrent use.
func KnowsOption(fsType, option string) bool { return knowsOption(fsType, option) }
