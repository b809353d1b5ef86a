package mounttest

import (
	"fmt"
	"path"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// A tree is what a request asks to see mounted.
type tree struct {
	mount.Info
	isFile bool
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
		return compare(at.in, wanted.Info, req)
	}
	if req.FSType != "" {
		wanted.Major, wanted.Minor = f.kernel.device(req.Source)
	}
	wanted.Parent = at.in.ID
	wanted.Mountpoint = req.Target
	f.kernel.attach(wanted.Info, wanted.isFile)
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
	bind := at.in
	bind.Root = at.root
	bind.Flags = options.Apply(bind.Flags)
	bind.Options = tableOptions(bind.Flags)
	return tree{bind, !at.mode.IsDir()}, nil
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
func compare(there, wanted mount.Info, req mount.Request) error {
	same := there.Major == wanted.Major && there.Minor == wanted.Minor
	if req.FSType != "" {
		same = there.FSType == wanted.FSType && there.Source == wanted.Source
	}
	if !same || there.Root != wanted.Root {
		return mount.ErrMounted
	}
	if there.Flags != wanted.Flags {
		return fmt.Errorf("%w: it is %v, not %v", mount.ErrMounted, there.Flags, wanted.Flags)
	}
	return nil
}
