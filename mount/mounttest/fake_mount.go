package mounttest

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// A tree is what a request asks to see mounted.
type tree struct {
	mount.Info
	isFile bool
	real   fs.FileInfo // the real directory or file at its root, if it has one
}

// shows reports whether both are the same directory or file.
func (t tree) shows(other tree) bool {
	if t.Major != other.Major || t.Minor != other.Minor || t.Root != other.Root || t.Deleted != other.Deleted {
		return false
	}
	return t.real == nil || other.real == nil || os.SameFile(t.real, other.real)
}

func (f *Fake) mount(req mount.Request, options mount.Options) error {
	at, err := f.lookupNoLink(req.Target)
	if err != nil {
		return err
	}
	wanted, err := f.wanted(req, options)
	if err != nil {
		return err
	}
	if wanted.isFile == at.mode.IsDir() {
		return syscall.ENOTDIR
	}
	if at.isMountPoint() && !req.Stack {
		return compare(f.kernel.tree(at.in), wanted, req)
	}
	if wanted.Deleted || at.in.Deleted {
		return syscall.ENOENT // as Linux: what is removed is not mounted again, nor on
	}
	if options.Clear&mount.ReadOnly != 0 && isReadOnly(wanted.Info) {
		return mount.ErrNotAsRequested // the file system itself is read-only
	}
	if req.FSType != "" {
		wanted.Major, wanted.Minor = f.kernel.device(req.Source)
	}
	wanted.Parent = at.in.ID
	wanted.Mountpoint = req.Target
	f.kernel.attach(wanted)
	return nil
}

func (f *Fake) unmount(target string) error {
	at, err := f.lookup(target)
	switch {
	case err != nil:
		return err
	case !at.isMountPoint():
		return nil
	case f.kernel.hasMounts(at.in.ID):
		return syscall.EBUSY
	}
	f.kernel.detach(at.in.ID)
	return nil
}

func (f *Fake) lookupNoLink(p string) (spot, error) {
	at, err := f.lookup(p)
	if err == nil && at.isLink() {
		return at, errLink
	}
	return at, err
}

// wanted returns what req asks for. The device of a file system is not known
// before it is mounted.
func (f *Fake) wanted(req mount.Request, options mount.Options) (tree, error) {
	if req.FSType != "" {
		return newFileSystem(req, options), nil
	}
	at, err := f.lookupNoLink(path.Clean(req.Source))
	if err != nil {
		return tree{}, err
	}
	if namesDirectory(req.Source) && !at.mode.IsDir() {
		return tree{}, syscall.ENOTDIR
	}
	bind := at.in
	bind.Root = at.root
	bind.Flags = options.Apply(bind.Flags)
	bind.Options = tableOptions(bind.Flags)
	real, err := f.realRoot(at)
	return tree{bind, !at.mode.IsDir(), real}, err
}

// namesDirectory reports whether a path can only be one of a directory.
func namesDirectory(p string) bool { return strings.HasSuffix(p, "/") || path.Base(p) == "." }

// realRoot returns the real file at a spot, nil if there is none.
func (f *Fake) realRoot(at spot) (fs.FileInfo, error) {
	if at.real == "" { // in a fake file system, or removed
		return f.kernel.trees[at.in.ID].real, nil
	}
	info, err := os.Lstat(native(at.real))
	return info, cause(err)
}

func newFileSystem(req mount.Request, options mount.Options) tree {
	return tree{Info: mount.Info{
		Root:         "/",
		Flags:        options.Set,
		Options:      tableOptions(options.Set),
		FSType:       req.FSType,
		Source:       req.Source,
		SuperOptions: slices.Concat([]string{readOnlyOption(options.Set)}, options.Data),
	}}
}

// compare returns nil if the mount that is there is the wanted one. File systems
// are told apart by what they were mounted from.
func compare(there, wanted tree, req mount.Request) error {
	same := there.shows(wanted)
	if req.FSType != "" {
		same = there.FSType == wanted.FSType && there.Source == wanted.Source && there.Root == wanted.Root
	}
	if !same {
		return mount.ErrMounted
	}
	if there.Flags != wanted.Flags {
		return fmt.Errorf("%w: it is %v, not %v", mount.ErrMounted, there.Flags, wanted.Flags)
	}
	return nil
}
