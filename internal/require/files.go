package require

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// NoFileExists fails if there is a file of the name.
func NoFileExists(t TestingT, name string, message ...any) {
	t.Helper()
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		fail(t, fmt.Sprintf("should not exist: %s", name), message)
	}
}

// FileExists fails unless there is a file of the name that is no directory.
func FileExists(t TestingT, name string, message ...any) {
	t.Helper()
	if info, err := os.Lstat(name); err != nil || info.IsDir() {
		fail(t, fmt.Sprintf("should be a file: %s", name), message)
	}
}

// DirExists fails unless there is a directory of the name.
func DirExists(t TestingT, name string, message ...any) {
	t.Helper()
	if info, err := os.Lstat(name); err != nil || !info.IsDir() {
		fail(t, fmt.Sprintf("should be a directory: %s", name), message)
	}
}

// NoDirExists fails if there is a directory of the name.
func NoDirExists(t TestingT, name string, message ...any) {
	t.Helper()
	if info, err := os.Lstat(name); err == nil && info.IsDir() {
		fail(t, fmt.Sprintf("should not be a directory: %s", name), message)
	}
}
