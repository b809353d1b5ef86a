package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/volumekit/volumekit/internal/kerneltest/boot"
	"github.com/volumekit/volumekit/internal/kerneltest/kernels"
)

// demo boots a kernel with this program as its first process, which plays the demo: see
// play.
func demo(ctx context.Context, o options, c *console) error {
	// It takes half a minute, on a machine that is not busy with other things.
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	kernel, err := kernelFor(ctx, cmp.Or(o.kernel, defaultKernel), c)
	if err != nil {
		return fmt.Errorf("-demo: find a kernel: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	begin := time.Now()
	status, err := boot.Run(ctx, boot.Test{Kernel: kernel, Program: program, Args: []string{guestArg}, Output: c.stdout})
	if err != nil {
		return fmt.Errorf("-demo: %w", err)
	}
	if status != 0 {
		return fmt.Errorf("-demo: exit status %d in the guest", status)
	}
	c.printf("The program has ended, and its kernel, after %v in all.\n", time.Since(begin).Round(time.Second))
	return nil
}

// kernelFor returns the kernel, and downloads it if it is not cached.
func kernelFor(ctx context.Context, name string, c *console) (kernels.Kernel, error) {
	kernel, err := kernels.Find(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return kernel, err
	}
	cache, err := kernels.Cache()
	if err != nil {
		return kernel, err
	}
	c.printf("Fetching a kernel, Linux %s that runs as an ordinary program, from Debian. It is kept in %s.\n", name, cache)
	return kernels.Fetch(ctx, name)
}
