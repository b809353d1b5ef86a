package kernels

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/volumekit/volumekit/internal/cachedir"
	"github.com/volumekit/volumekit/internal/command"
	"github.com/volumekit/volumekit/internal/debian"
)

// Fetch returns the kernel, and downloads it from Debian if it is not in the cache. It needs
// Debian's package tools and its archive's keys, and no root. The cache holds complete
// kernels only, also after concurrent calls; when ctx ends, Fetch leaves nothing there.
func Fetch(ctx context.Context, name string) (Kernel, error) {
	k, err := Find(name)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := fetch(ctx, name, unpackKernel); err != nil {
		return Kernel{}, fmt.Errorf("fetch kernel %s: %w", name, err)
	}
	return Find(name)
}

// fetch makes a directory in the cache.
func fetch(ctx context.Context, name string, unpack func(ctx context.Context, work, dir, name string) error) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("for %s there is no User-Mode Linux in Debian", runtime.GOARCH)
	}
	cache, err := Cache()
	if err != nil {
		return err
	}
	return cachedir.Add(cache, name, func(work, dir string) error { return unpack(ctx, work, dir, name) })
}

// unpackKernel makes the kernel's directory and tries the program.
func unpackKernel(ctx context.Context, work, dir, name string) error {
	a, err := debian.Open(ctx, work, suites[name])
	if err != nil {
		return err
	}
	if err := a.Unpack(ctx, dir, "user-mode-linux", "libc6"); err != nil {
		return err
	}
	if err := useOwnLoader(dir); err != nil {
		return err
	}
	k, err := kernelIn(dir)
	if err != nil {
		return err
	}
	return try(ctx, k, name)
}

// useOwnLoader makes the kernel use the unpacked C library, since the machine's own may be
// older than the kernel requires.
func useOwnLoader(dir string) error {
	if err := linkLoader(dir); err != nil {
		return err
	}
	return setInterpreter(filepath.Join(dir, "usr/bin/linux.uml"), loader)
}

// linkLoader makes a link with a short name to the loader.
func linkLoader(dir string) error {
	const linker = "ld-linux-x86-64.so.2"
	found, err := onlyMatch(dir, "lib/*/"+linker, "usr/lib/*/"+linker)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(dir, found)
	if err != nil {
		return err
	}
	return os.Symlink(relative, filepath.Join(dir, loader))
}

// try runs the kernel to print its version.
func try(ctx context.Context, k Kernel, name string) error {
	cmd := k.Command(ctx, "--version")
	version, err := command.Output(cmd)
	if err != nil {
		return err
	}
	version = strings.TrimSpace(version)
	if suites[name] != name && !strings.HasPrefix(version, name+".") {
		return fmt.Errorf("the kernel of Debian %s is %q now", suites[name], version)
	}
	return nil
}
