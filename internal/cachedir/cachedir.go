// Package cachedir builds directories in a cache that concurrent processes share.
package cachedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Locate returns the directory that an environment variable names, or else the subdirectory
// volumekit/sub of the user's cache directory. It creates nothing.
func Locate(variable, sub string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s is not set, and the user has no cache directory: %w", variable, err)
	}
	return filepath.Join(dir, "volumekit", sub), nil
}

// Add creates the directory name in the cache: build fills the directory dir and may use the
// directory work, which Add removes. The cache holds complete directories only, also after
// concurrent calls, of which the first wins. Add creates the cache itself if it is missing.
func Add(cache, name string, build func(work, dir string) error) (err error) {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, ".build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	dir := filepath.Join(work, name)
	if err := build(work, dir); err != nil {
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
