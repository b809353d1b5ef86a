package boot

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// start runs the kernel until its test or the kernel has ended, or until ctx ends.
func (t Test) start(ctx context.Context, work, image string) (r report, err error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	cmd := t.Kernel.Command(ctx, t.commandLine(work, image)...)
	// The kernel has child processes, which must end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	console, w, err := os.Pipe()
	if err != nil {
		return r, err
	}
	defer func() { _ = console.Close() }()
	cmd.Stdout, cmd.Stderr = w, w
	// The kernel dies with the thread that created it, so the thread must not end.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := hideWideRegisters(); err != nil {
		return r, err
	}
	if err := errors.Join(cmd.Start(), w.Close()); err != nil {
		return r, err
	}
	late := time.AfterFunc(cmp.Or(t.BootTime, time.Minute), kill)
	r, err = listen(console, t.Output, func() { late.Stop() })
	late.Stop()
	_ = cmd.Cancel()
	_ = cmd.Wait() // it was killed
	return r, err
}

// commandLine returns the kernel's command line.
func (t Test) commandLine(work, image string) []string {
	return append([]string{
		"mem=" + cmp.Or(t.Memory, "512M"),
		"initrd=" + image, "rdinit=/init",
		"con=null", "con0=null,fd:1",
		"panic=-1", // exit at once
		"umid=" + filepath.Base(work), "uml_dir=" + work,
		"quiet", "loglevel=3",
		narrowGo, narrowC,
	}, t.Parameters...)
}
