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
)

// Fetch returns the kernel, and fetches it from Debian if it is not in the cache.
// It needs Debian's package tools and its archive's keys, and no root. What it
// leaves in the cache is complete, also if several fetch at once; when ctx ends,
// nothing is left.
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

// fetch makes a directory in the cache. If another is there, that stays.
func fetch(ctx context.Context, name string, unpack func(ctx context.Context, work, dir, name string) error) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("for %s there is no User-Mode Linux in Debian", runtime.GOARCH)
	}
	cache, err := Cache()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, ".fetch-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(work) }()
	dir := filepath.Join(work, name)
	if err := unpack(ctx, work, dir, name); err != nil {
		return err
	}
	place := filepath.Join(cache, name)
	if err := os.Rename(dir, place); err != nil && !isDir(place) {
		return err
	}
	return nil
}

func isDir(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}

// unpackKernel makes the kernel's directory and tries the program.
func unpackKernel(ctx context.Context, work, dir, name string) error {
	a, err := newArchive(ctx, work, suites[name])
	if err != nil {
		return err
	}
	if err := a.unpack(ctx, dir, "user-mode-linux", "libc6"); err != nil {
		return err
	}
	if err := useOwnLoader(dir); err != nil {
		return err
	}
	k, err := at(dir)
	if err != nil {
		return err
	}
	return try(ctx, k, name)
}

// useOwnLoader lets the kernel run with the C library that was unpacked beside
// it, since the machine's own may be older than the kernel needs.
func useOwnLoader(dir string) error {
	if err := linkLoader(dir); err != nil {
		return err
	}
	return setInterpreter(filepath.Join(dir, "usr/bin/linux.uml"), loader)
}

// linkLoader makes the loader known by a short name.
func linkLoader(dir string) error {
	const linker = "ld-linux-x86-64.so.2"
	found, err := one(dir, "lib/*/"+linker, "usr/lib/*/"+linker)
	if err != nil {
		return err
	}
	relative, err := filepath.Rel(dir, found)
	if err != nil {
		return err
	}
	return os.Symlink(relative, filepath.Join(dir, loader))
}

// try asks the kernel for its version.
func try(ctx context.Context, k Kernel, name string) error {
	cmd := k.Command(ctx, "--version")
	version, err := output(cmd)
	if err != nil {
		return err
	}
	version = strings.TrimSpace(version)
	if suites[name] != name && !strings.HasPrefix(version, name+".") {
		return fmt.Errorf("the kernel of Debian %s is %q now", suites[name], version)
	}
	return nil
}
