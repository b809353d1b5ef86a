package mounttest

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

// Files are the files of a [Fake] below "/", under its mounts. Paths are absolute and clean.
// Methods are called by one goroutine at a time of each Fake.
type Files interface {
	// Lstat is like os.Lstat.
	Lstat(name string) (fs.FileInfo, error)
	// Readlink is like os.Readlink.
	Readlink(name string) (string, error)
	// SameFile is like os.SameFile, for results of Lstat.
	SameFile(a, b fs.FileInfo) bool
}

// NewFakeOn is [NewFake] with other files than the system's: with [MemoryFiles] a test leaves
// no files behind and makes no system calls. The SourceFile of a mount.Request is a file of
// the system, and so not among them.
func NewFakeOn(config mount.Config, files Files) *Fake {
	f := NewFake(config)
	f.trusted, f.kernel.files = "", files
	return f
}

// systemFiles are the files of the operating system.
type systemFiles struct{}

func (systemFiles) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(tablepath.Native(name)) }
func (systemFiles) Readlink(name string) (string, error)   { return os.Readlink(tablepath.Native(name)) }
func (systemFiles) SameFile(a, b fs.FileInfo) bool         { return os.SameFile(a, b) }

// deviceName returns the source of a file system without symbolic links, if it exists: block
// devices have several names.
func (k *kernel) deviceName(source string) string {
	if !path.IsAbs(source) {
		return source
	}
	if _, ok := k.files.(systemFiles); ok {
		if real, err := filepath.EvalSymlinks(tablepath.Native(source)); err == nil {
			return tablepath.Of(real)
		}
	}
	return path.Clean(source)
}
