package mounttest

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// registerInfo is syscallInfo for kernels without its request, such as User-Mode Linux: it
// reads the registers one by one, which is slow. At the entry to a call the result register
// has ENOSYS; so it may at the exit, too.
func registerInfo(tid int) (info ptraceSyscallInfo, err error) {
	var regs unix.PtraceRegs
	var result uint64
	for register, value := range map[uintptr]*uint64{
		unsafe.Offsetof(regs.Orig_rax): &info.nr,
		unsafe.Offsetof(regs.Rax):      &result,
		unsafe.Offsetof(regs.Rdx):      &info.args[2],
	} {
		if _, err := unix.PtracePeekUser(tid, register, word(value)); err != nil {
			return info, err
		}
	}
	if unix.Errno(-result) == unix.ENOSYS {
		info.op = unix.PTRACE_SYSCALL_INFO_ENTRY
	}
	return info, nil
}

func word(value *uint64) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(value)), unsafe.Sizeof(*value))
}
