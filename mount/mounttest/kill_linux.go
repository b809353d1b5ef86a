package mounttest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/internal/testflag"
)

// changingCalls names the system calls that change mounts or files. Openat counts if it may
// create a file, ioctl if it changes a loop device's backing file.
var changingCalls = map[uint64]string{
	unix.SYS_MOUNT:          "mount",
	unix.SYS_UMOUNT2:        "umount2",
	unix.SYS_OPEN_TREE:      "open_tree",
	unix.SYS_OPEN_TREE_ATTR: "open_tree_attr",
	unix.SYS_MOUNT_SETATTR:  "mount_setattr",
	unix.SYS_MOVE_MOUNT:     "move_mount",
	unix.SYS_FSOPEN:         "fsopen",
	unix.SYS_FSCONFIG:       "fsconfig",
	unix.SYS_FSMOUNT:        "fsmount",
	unix.SYS_OPENAT:         "openat",
	unix.SYS_MKDIRAT:        "mkdirat",
	unix.SYS_UNLINKAT:       "unlinkat",
	unix.SYS_RENAMEAT:       "renameat",
	unix.SYS_RENAMEAT2:      "renameat2",
	unix.SYS_IOCTL:          "ioctl",
	unix.SYS_FCHOWNAT:       "fchownat",
	unix.SYS_FCHMODAT:       "fchmodat",
	unix.SYS_FCHOWN:         "fchown",
	unix.SYS_FCHMOD:         "fchmod",
	unix.SYS_SYMLINKAT:      "symlinkat",
	unix.SYS_LINKAT:         "linkat",
	unix.SYS_FCHMODAT2:      "fchmodat2",
	unix.SYS_FTRUNCATE:      "ftruncate",
	unix.SYS_PWRITE64:       "pwrite64",
}

// KillAtEachCall tests that a program may be killed at any moment. It runs the program that
// command returns repeatedly, and kills it with SIGKILL before the first system call that
// changes something, after it, before the second, and so on, until the program ends by
// itself, which must be a success. After each run, also the last, it calls check with the
// place of death. It returns the number of kills. A short test (-short) skips two of three
// places; the name of the test decides which.
//
// The program has to start in a known state each time, which command establishes. It is
// traced (ptrace(2)); where that is forbidden the test is skipped. No other child of this
// process may run meanwhile.
func KillAtEachCall(t T, command func() *exec.Cmd, check func(place string)) int {
	t.Helper()
	// Only the thread that started the program may trace it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	first, step := 1, 1
	if testflag.Short() {
		first, step = firstOf(t.Name(), 3), 3
	}
	kills := 0
	for n := first; ; n += step {
		place, err := runAndKill(command(), n)
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) {
			SkipWithout(t, "ptrace", err)
		}
		if err != nil {
			t.Fatalf("kill %d: %v", n, err)
		}
		check(place)
		if place == "" {
			return kills
		}
		kills++
	}
}

// firstOf returns a number from 1 to n, always the same one for a name.
func firstOf(name string, n uint32) int {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(name))
	return 1 + int(sum.Sum32()%n)
}

// A tracee is a traced program with the states of its threads.
type tracee struct {
	pid       int
	inCall    map[int]string // the changing call that a thread is in
	remaining int            // changes to pass before the kill
	place     string         // of the kill
	counts    map[uint64]int // of entries to calls, by number; nil: not counted
}

// runAndKill kills the program at the nth entry to or exit from a changing call and returns
// that place, or "" if the program ended before, with success.
func runAndKill(c *exec.Cmd, n int) (place string, err error) {
	return (&tracee{remaining: n}).run(c)
}

// run runs the program to its end, or to its place of death.
func (tr *tracee) run(c *exec.Cmd) (place string, err error) {
	c.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := c.Start(); err != nil {
		return "", err
	}
	tr.pid, tr.inCall = c.Process.Pid, map[int]string{}
	defer func() {
		if err == nil {
			_ = c.Wait() // for the copies of its output: trace has seen the end of the process
		}
		_ = c.Process.Release()
	}()
	var status unix.WaitStatus
	if _, err := unix.Wait4(tr.pid, &status, 0, nil); err != nil {
		return "", err
	}
	const options = unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL
	if err := unix.PtraceSetOptions(tr.pid, options); err != nil {
		return "", err
	}
	if err := unix.PtraceSyscall(tr.pid, 0); err != nil {
		return "", err
	}
	return tr.trace()
}

// trace lets all threads run from stop to stop until the program has ended.
func (tr *tracee) trace() (place string, err error) {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return "", err
		case tid == tr.pid && (status.Exited() || status.Signaled()):
			return tr.result(status)
		case !status.Stopped():
			continue
		}
		if err := tr.handleStop(tid, status); err != nil && !errors.Is(err, unix.ESRCH) {
			return "", err
		}
	}
}

func (tr *tracee) result(status unix.WaitStatus) (string, error) {
	if tr.place == "" && status.ExitStatus() != 0 {
		return "", fmt.Errorf("the program failed: exit status %d", status.ExitStatus())
	}
	return tr.place, nil
}

// handleStop handles one stop of one thread: it continues the thread, or kills the program.
func (tr *tracee) handleStop(tid int, status unix.WaitStatus) error {
	deliver := 0
	switch signal := status.StopSignal(); {
	case signal == unix.SIGTRAP|0x80:
		if err := tr.handleSyscallStop(tid); err != nil {
			return err
		}
	case signal == unix.SIGTRAP || signal == unix.SIGSTOP: // a new thread
	default:
		deliver = int(signal)
	}
	return unix.PtraceSyscall(tid, deliver)
}

func (tr *tracee) handleSyscallStop(tid int) error {
	info, err := syscallInfo(tid)
	if err != nil {
		return err
	}
	if tr.counts != nil && info.op == unix.PTRACE_SYSCALL_INFO_ENTRY {
		tr.counts[info.nr]++
	}
	call := tr.inCall[tid]
	place := "after " + call
	delete(tr.inCall, tid)
	if call == "" && info.op == unix.PTRACE_SYSCALL_INFO_ENTRY {
		call = info.changingCall()
		place = "before " + call
		tr.inCall[tid] = call
	}
	if call == "" || tr.place != "" {
		return nil
	}
	if tr.remaining--; tr.remaining == 0 {
		tr.place = place
		return unix.Kill(tr.pid, unix.SIGKILL)
	}
	return nil
}

// ptraceSyscallInfo is struct ptrace_syscall_info of linux/ptrace.h at the entry
// to a call.
type ptraceSyscallInfo struct {
	op   uint8
	_    [3]byte
	arch uint32
	_    [2]uint64 // instruction and stack pointer
	nr   uint64
	args [6]uint64
	_    [16]byte
}

// changingCall returns the name of the call if it changes something.
func (i ptraceSyscallInfo) changingCall() string {
	switch {
	case i.nr == unix.SYS_OPENAT && i.args[2]&unix.O_CREAT == 0:
		return ""
	case i.nr == unix.SYS_IOCTL && i.args[1] != unix.LOOP_CONFIGURE && i.args[1] != unix.LOOP_CLR_FD:
		return ""
	}
	return changingCalls[i.nr]
}

func syscallInfo(tid int) (info ptraceSyscallInfo, err error) {
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid),
		unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	switch errno {
	case 0:
		return info, nil
	case unix.EIO: // the kernel lacks the request
		return registerInfo(tid)
	}
	return info, errno
}
