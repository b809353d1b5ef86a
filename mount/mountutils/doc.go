// Package mountutils is the bridge between package mount and
// k8s.io/mount-utils: [New] gives programs that are written against the latter
// the mounter of the former, [From] the other way round.
//
//	mounter := mountutils.New(mount.New(mount.Config{})) // was: mount.New("")
//
// SafeFormatAndMount, ResizeFs, CleanupMountPoint and CleanupMountWithForce work
// with it. No program is run to mount or unmount, and no call waits for ever.
//
// # What is different
//
//	                      k8s.io/mount-utils        here
//	Mount again           stacks                    the same: nothing happens; something
//	                                                else: mount.ErrMounted; see WithStacking
//	Mount, type missing   is guessed                refused
//	Mount -o bind         then remount for flags    one step; joins no peer group unless asked
//	                                                to ("shared", "slave")
//	-o remount            may change file systems   changes flags of this mount alone
//	set-user-ID, devices  honoured                  only with mount.Config.Allow: volumes that
//	                                                are device files need Allow.Dev
//	ro and rw             the last one counts       refused
//	loop=, move, helper=  work                      refused
//	sensitive options     in argv                   shown to the file system alone
//	Unmount               of a path or device       of a path; escalates by mount.UnmountPolicy
//	UnmountWithForce      forces after a time       the same as Unmount
//	List                  blanks as \040            as they are
//	GetMountRefs          none of a dead mount      all of it, without those that are hidden
//	IsMountPoint          asks the file system      asks the mount table: a dead mount is one
//	errors                text                      *mount.Error, *mount.InputError
//
// Options that speak to the file system ("nfsvers=4.1") are dropped from bind
// mounts, which have none, as mount(8) does; so are options for the readers of
// fstab ("_netdev", "x-systemd.automount") from all. Symbolic links in paths are
// followed first, and the mount is then made without following any.
package mountutils
