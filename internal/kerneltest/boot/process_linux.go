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

// start runs the kernel until its test has ended, or it has, or until ctx ends.
func (t Test) start(ctx context.Context, work, image string) (r report, err error) {
	ctx, kill := context.WithCancel(ctx)
	defer kill()
	cmd := t.Kernel.Command(ctx, commandLine(work, image)...)
	// The kernel has processes of its own, and all have to go with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	console, w, err := os.Pipe()
	if err != nil {
		return r, err
	}
	defer func() { _ = console.Close() }()
	cmd.Stdout, cmd.Stderr = w, w
	// The kernel dies with the thread that made it, so the thread must not end.
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

// commandLine is the kernel's.
func commandLine(work, image string) []string {
	return []string{
		"mem=512M",
		"initrd=" + image, "rdinit=/init",
		"con=null", "con0=null,fd:1",
		"panic=-1", // end, do not wait
		"umid=" + filepath.Base(work), "uml_dir=" + work,
		"quiet", "loglevel=3",
		narrowGo, narrowC,
	}
}
