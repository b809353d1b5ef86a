// Package kernels knows the kernels that tests run on. Each is a program that
// Debian packages, User-Mode Linux, with its modules and the C library that it
// was built for, unpacked into a directory of a cache and not installed.
package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// cacheVar names the directory of the kernels.
const cacheVar = "VOLUMEKIT_KERNELS"

// suites are Debian's releases by the name of their kernel. What moves on is
// called by the release's own name.
var suites = map[string]string{
	"6.1":  "bookworm",
	"6.12": "trixie",
	"sid":  "sid",
}

// A Kernel is an unpacked kernel.
type Kernel struct {
	// Dir is where the program has to be started: it finds its loader from there.
	Dir string
	// Program is the kernel itself.
	Program string
	// Libraries is the directory of its C library.
	Libraries string
	// Modules is the directory that holds modules.dep.
	Modules string
}

// Cache returns the directory that holds the kernels: VOLUMEKIT_KERNELS, or a
// place in the user's cache directory.
func Cache() (string, error) {
	if dir := os.Getenv(cacheVar); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("kernels: %s is not set, and no cache directory: %w", cacheVar, err)
	}
	return filepath.Join(dir, "volumekit", "kernels"), nil
}

// Find returns a kernel that was fetched before. The error wraps fs.ErrNotExist
// if it was not.
func Find(name string) (Kernel, error) {
	if err := check(name); err != nil {
		return Kernel{}, err
	}
	cache, err := Cache()
	if err != nil {
		return Kernel{}, err
	}
	k, err := at(filepath.Join(cache, name))
	if err != nil {
		return Kernel{}, fmt.Errorf("kernel %s has to be fetched first: %w", name, err)
	}
	return k, nil
}

func check(name string) error {
	if suites[name] == "" {
		return fmt.Errorf("kernel %q is none of 6.1, 6.12 and sid", name)
	}
	return nil
}

// loader is the name, in a kernel's directory, of the loader that goes with its
// C library. It has to fit where the program names its loader.
const loader = "ld.so"

// at looks up the parts of the kernel in a directory.
func at(dir string) (Kernel, error) {
	k := Kernel{Dir: dir, Program: filepath.Join(dir, "usr/bin/linux.uml")}
	if _, err := os.Stat(k.Program); err != nil {
		return Kernel{}, err
	}
	linker, err := filepath.EvalSymlinks(filepath.Join(dir, loader))
	if err != nil {
		return Kernel{}, err
	}
	k.Libraries = filepath.Dir(linker)
	dep, err := one(dir, "usr/lib/uml/modules/*/modules.dep")
	k.Modules = filepath.Dir(dep)
	return k, err
}

// one returns the only file in dir that matches one of the patterns.
func one(dir string, patterns ...string) (string, error) {
	var found []string
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return "", err
		}
		found = append(found, names...)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("%s in %s: %w", strings.Join(patterns, ", "), dir, os.ErrNotExist)
	}
	return found[0], nil
}
