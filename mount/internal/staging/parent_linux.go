package staging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"golang.org/x/sys/unix"
)

// systemParent is the default parent of root.
const systemParent = "/run/volumekit"

// userParent returns the default parent of a user without write access to systemParent.
func userParent() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("volumekit-%d", os.Getuid()))
}

// openParent returns the configured or the default parent, and creates it if it is missing.
func openParent(configured string) (string, error) {
	if configured != "" {
		return configured, createParent(configured)
	}
	if err := createParent(systemParent); err == nil {
		return systemParent, nil
	}
	own := userParent()
	return own, createParent(own)
}

// createParent creates a directory, or checks an existing one.
func createParent(dir string) error {
	if !filepath.IsAbs(dir) {
		return failure.NewInputError("Config.StagingDir", dir, "the path must be absolute")
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return checkOwner(dir)
}

// checkOwner accepts a directory that belongs to this user and that no other user can write.
func checkOwner(dir string) error {
	var stat unix.Stat_t
	if err := unix.Lstat(dir, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR || stat.Mode&0o022 != 0 || int(stat.Uid) != os.Geteuid() {
		return fmt.Errorf("%s: %w: %w", dir, failure.ErrUnsafeDirectory, unix.EPERM)
	}
	return nil
}
