// Package kernels has the kernels for tests. Each is a program that Debian packages,
// User-Mode Linux, with its modules and the C library that it was built for, unpacked into a
// cache directory and not installed.
package kernels

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/cachedir"
)

// cacheVar names the directory of the kernels.
const cacheVar = "VOLUMEKIT_KERNELS"

// suites maps kernels to Debian's releases. A suite that moves on has the release's own name.
var suites = map[string]string{
	"6.1":  "bookworm",
	"6.12": "trixie",
	"sid":  "sid",
}

// A Kernel is an unpacked kernel.
type Kernel struct {
	// Dir is the working directory of the program: the loader's path is relative to it.
	Dir string
	// Program is the kernel itself.
	Program string
	// Libraries is the directory of its C library.
	Libraries string
	// Modules is the directory that holds modules.dep.
	Modules string
}

// Cache returns the directory of the kernels: VOLUMEKIT_KERNELS, or a directory in the
// user's cache directory.
func Cache() (string, error) {
	return cachedir.Locate(cacheVar, "kernels")
}

// Find returns a kernel from the cache. The error wraps fs.ErrNotExist if it is not there.
func Find(name string) (Kernel, error) {
	if err := check(name); err != nil {
		return Kernel{}, err
	}
	cache, err := Cache()
	if err != nil {
		return Kernel{}, err
	}
	k, err := kernelIn(filepath.Join(cache, name))
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

// loader is the name, in a kernel's directory, of its C library's loader. It must not be
// longer than the path in the program's header.
const loader = "ld.so"

// kernelIn returns the parts of the kernel in a directory.
func kernelIn(dir string) (Kernel, error) {
	k := Kernel{Dir: dir, Program: filepath.Join(dir, "usr/bin/linux.uml")}
	if _, err := os.Stat(k.Program); err != nil {
		return Kernel{}, err
	}
	linker, err := filepath.EvalSymlinks(filepath.Join(dir, loader))
	if err != nil {
		return Kernel{}, err
	}
	k.Libraries = filepath.Dir(linker)
	dep, err := onlyMatch(dir, "usr/lib/uml/modules/*/modules.dep")
	k.Modules = filepath.Dir(dep)
	return k, err
}

// onlyMatch returns the only file in dir that matches one of the patterns.
func onlyMatch(dir string, patterns ...string) (string, error) {
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
