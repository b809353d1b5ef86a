package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// onServer measures on a real API server, in a copy of the program that may mount.
func onServer(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "volumekit-bench")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // the mounts have ended with the copy
	if os.Getenv(insideVar) == "" {
		runtime.LockOSThread() // the copy ends with the thread that started it
		defer runtime.UnlockOSThread()
		c := mounttest.Command("/proc/self/exe", os.Args[1:]...)
		c.Env = append(os.Environ(), insideVar+"=1", "TMPDIR="+dir)
		c.Stdout, c.Stderr = out, os.Stderr
		return c.Run()
	}
	if err := mounttest.Privatize(); err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	server, err := kubeserver.Run(ctx, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	return measurePods(ctx, server, dir, o, out)
}
