package boot

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hideWideRegisters makes the processor look older to the processes that this thread starts.
//
// User-Mode Linux keeps the registers of its processes in structures of fixed size. Up to
// some version they have room for the registers of processors of their time, and on a later
// processor the kernel dies with its first process. The kernel falls back to the registers
// of every processor if its request for more,
// ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE), fails, so a system call filter makes it fail.
// Programs in the guest must then not use wide registers in several threads: see guestEnv.
//
// The filter cannot be removed. The goroutine must stay on its thread, and end on it.
func hideWideRegisters() error {
	const (
		load, jumpIfEqual, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		number, arg0, arg2     = 0, 16, 32 // in struct seccomp_data
		xstate                 = 0x202     // NT_X86_XSTATE of linux/elf.h
	)
	filter := []unix.SockFilter{
		{Code: load, K: number},
		{Code: jumpIfEqual, K: unix.SYS_PTRACE, Jf: 5},
		{Code: load, K: arg0},
		{Code: jumpIfEqual, K: unix.PTRACE_GETREGSET, Jf: 3},
		{Code: load, K: arg2},
		{Code: jumpIfEqual, K: xstate, Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENODEV)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
