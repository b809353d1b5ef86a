package mounttest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// same reports whether both are the same directory or file.
func (k *kernel) same(m, other *mounted) bool {
	if m.Major != other.Major || m.Minor != other.Minor || m.Root != other.Root || m.Deleted != other.Deleted {
		return false
	}
	return m.real == nil || other.real == nil || k.files.SameFile(m.real, other.real)
}

func (f *Fake) mount(req mount.Request, options mount.Options) error {
	at, err := f.lookupNoLink(req.Target)
	if err != nil {
		return err
	}
	if req.Remount {
		return f.remount(at, options)
	}
	from, wanted, err := f.wanted(req, options)
	if err != nil {
		return err
	}
	if wanted.isFile == at.mode.IsDir() {
		return syscall.ENOTDIR
	}
	if at.isMountPoint() && !req.Stack {
		return f.kernel.compare(at.in, wanted, req)
	}
	if err := f.mountable(at, from, wanted, req, options); err != nil {
		return err
	}
	if req.FSType != "" {
		wanted.Major, wanted.Minor = f.kernel.device(req.Source)
	}
	f.attach(at, from, wanted, req, options)
	return nil
}

// mountable returns what keeps the kernel from mounting what is wanted.
func (f *Fake) mountable(at, from spot, wanted *mounted, req mount.Request, options mount.Options) error {
	switch below := f.kernel.below(from); {
	case len(below) > 0 && req.Submounts == mount.RefuseSubmounts:
		return fmt.Errorf("%w: %s", mount.ErrSubmounts, below[0].Mountpoint)
	case wanted.Deleted || at.in.Deleted:
		return syscall.ENOENT // as Linux: what is removed is not mounted again, nor on
	case isMapped(req.IDMap) && from.in != nil && from.in.idMapped():
		return fmt.Errorf("what is mapped is not mapped again: %w", errors.ErrUnsupported)
	case options.Clear&mount.ReadOnly != 0 && isReadOnly(wanted):
		return mount.ErrNotAsRequested // the file system itself is read-only
	case req.FSType != "" && f.hangs(req.FSType, req.Target):
		return errHangs
	}
	return nil
}

// attach attaches what is wanted, and what the request includes below its source.
func (f *Fake) attach(at, from spot, wanted *mounted, req mount.Request, options mount.Options) {
	k := &f.kernel
	wanted.ID = k.newID()
	wanted.Mountpoint = req.Target
	tree := []*mounted{wanted}
	if req.Submounts == mount.IncludeSubmounts {
		tree = append(tree, k.include(from, wanted, req, options)...)
	}
	for _, m := range tree {
		k.propagate(m, req.Propagation)
	}
	k.attach(tree, at.in, req.Target)
	if req.Propagation != mount.PropagationShared {
		for _, m := range tree {
			k.propagate(m, req.Propagation)
		}
	}
}

func (f *Fake) lookupNoLink(p string) (spot, error) {
	at, err := f.lookup(p)
	if err == nil && at.isLink() {
		return at, errLink
	}
	return at, err
}

// wanted returns what req asks for, and where a bind mount comes from. The device
// of a file system is not known before it is mounted.
func (f *Fake) wanted(req mount.Request, options mount.Options) (from spot, wanted *mounted, err error) {
	if req.FSType != "" {
		return spot{}, newFileSystem(req, options), nil
	}
	at, err := f.source(req)
	if err != nil {
		return spot{}, nil, err
	}
	if req.SourceFile == nil && namesDirectory(req.Source) && !at.mode.IsDir() {
		return spot{}, nil, syscall.ENOTDIR
	}
	bind := clone(at.in, req, options)
	bind.Root = at.root
	bind.isFile = !at.mode.IsDir()
	bind.real, err = f.realRoot(at)
	return at, bind, err
}

// clone returns the mount with what a request changes of it.
func clone(m *mounted, req mount.Request, options mount.Options) *mounted {
	c := *m
	c.setFlags(options.Apply(m.Flags), m.idMapped() || isMapped(req.IDMap))
	return &c
}

func isMapped(ids mount.IDMap) bool { return len(ids.UIDs)+len(ids.GIDs) > 0 }

// namesDirectory reports whether a path can only be one of a directory.
func namesDirectory(p string) bool { return strings.HasSuffix(p, "/") || path.Base(p) == "." }

// realRoot returns the real file at a spot, nil if there is none.
func (f *Fake) realRoot(at spot) (fs.FileInfo, error) {
	if at.real == "" { // in a fake file system, or removed
		return at.in.real, nil
	}
	info, err := f.kernel.files.Lstat(at.real)
	return info, cause(err)
}

func newFileSystem(req mount.Request, options mount.Options) *mounted {
	m := &mounted{Info: mount.Info{
		Root:         "/",
		FSType:       req.FSType,
		Source:       req.Source,
		SuperOptions: slices.Concat([]string{readOnlyOption(options.Set)}, options.Data),
	}}
	m.setFlags(options.Set, isMapped(req.IDMap))
	return m
}

// compare returns nil if the mount that is there is the wanted one. File systems
// are told apart by what they were mounted from.
func (k *kernel) compare(there, wanted *mounted, req mount.Request) error {
	same := k.same(there, wanted)
	if req.FSType != "" {
		same = there.FSType == wanted.FSType && there.Source == wanted.Source && there.Root == wanted.Root
	}
	switch {
	case !same:
		return mount.ErrMounted
	case there.idMapped() != wanted.idMapped():
		return fmt.Errorf("%w: its IDs are mapped: %t", mount.ErrMounted, there.idMapped())
	case there.Flags != wanted.Flags:
		return fmt.Errorf("%w: it is %v, not %v", mount.ErrMounted, there.Flags, wanted.Flags)
	}
	return nil
}

// remount changes the flags of the mount at the spot, and of no other.
func (f *Fake) remount(at spot, options mount.Options) error {
	if !at.isMountPoint() {
		return mount.ErrNotMounted
	}
	at.in.setFlags(options.Apply(at.in.Flags), at.in.idMapped())
	if options.Clear&mount.ReadOnly != 0 && isReadOnly(at.in) {
		return mount.ErrNotAsRequested // the file system itself is read-only
	}
	return nil
}
