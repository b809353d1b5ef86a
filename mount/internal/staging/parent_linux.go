package staging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"golang.org/x/sys/unix"
)

// systemParent is the default parent of root.
const systemParent = "/run/volumekit"

// userParent returns the default parent of a user without write access to systemParent.
func userParent() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("volumekit-%d", os.Getuid()))
}

// openParent returns the configured or the default parent, and creates it if it is missing.
func openParent(configured string) (dir string, created bool, err error) {
	if configured != "" {
		created, err = createParent(configured)
		return configured, created, err
	}
	if created, err = createParent(systemParent); err == nil {
		return systemParent, created, nil
	}
	own := userParent()
	created, err = createParent(own)
	return own, created, err
}

// createParent creates a directory, or checks an existing one. It creates none that no mount could follow.
func createParent(dir string) (created bool, err error) {
	if !filepath.IsAbs(dir) {
		return false, failure.NewInputError("Config.StagingDir", dir, "the path must be absolute")
	}
	if err := checkOwner(dir); !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if !kernel.HasCapability(unix.CAP_SYS_ADMIN) {
		return false, unix.EPERM
	}
	err = os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	return err == nil, checkOwner(dir)
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
