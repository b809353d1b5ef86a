package mounttest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
)

// Files are what a [Fake] finds at "/", below all that is mounted. Their paths are
// absolute and clean. Methods are called by one goroutine at a time of each Fake.
type Files interface {
	// Lstat is as os.Lstat.
	Lstat(name string) (fs.FileInfo, error)
	// Readlink is as os.Readlink.
	Readlink(name string) (string, error)
	// SameFile is as os.SameFile, for what Lstat has returned.
	SameFile(a, b fs.FileInfo) bool
}

// NewFakeOn is [NewFake] for files other than the system's: ones in memory, say, so
// that a test leaves nothing behind and is as fast as its own code. What a
// mount.Request names by SourceFile is one of the system's, and so not among them.
func NewFakeOn(config mount.Config, files Files) *Fake {
	f := NewFake(config)
	f.trusted, f.kernel.files = "", files
	return f
}

// systemFiles are those of the operating system.
type systemFiles struct{}

func (systemFiles) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(native(name)) }
func (systemFiles) Readlink(name string) (string, error)   { return os.Readlink(native(name)) }
func (systemFiles) SameFile(a, b fs.FileInfo) bool         { return os.SameFile(a, b) }

// deviceName returns what the source of a file system is called without symbolic
// links, if it exists: block devices have several names.
func (k *kernel) deviceName(source string) string {
	if !path.IsAbs(source) {
		return source
	}
	if _, ok := k.files.(systemFiles); ok {
		if real, err := filepath.EvalSymlinks(native(source)); err == nil {
			return slashed(real)
		}
	}
	return path.Clean(source)
}
