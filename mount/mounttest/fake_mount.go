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

// showSame reports whether two mounts show the same directory or file.
func (k *kernel) showSame(m, other *fakeMount) bool {
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
	from, wanted, err := f.requestedMount(req, options)
	if err != nil {
		return err
	}
	if wanted.isFile == at.mode.IsDir() {
		return syscall.ENOTDIR
	}
	if at.isMountPoint() && !req.Stack {
		return f.kernel.checkExisting(at.in, wanted, req)
	}
	if err := f.checkMountable(at, from, wanted, req, options); err != nil {
		return err
	}
	if req.FSType != "" {
		wanted.Major, wanted.Minor = f.kernel.deviceOf(req.Source)
	}
	f.attach(at, from, wanted, req, options)
	return nil
}

// checkMountable returns the kernel's error for a mount that it refuses.
func (f *Fake) checkMountable(at, from spot, wanted *fakeMount, req mount.Request, options mount.Options) error {
	switch below := f.kernel.submounts(from); {
	case len(below) > 0 && req.Submounts == mount.RefuseSubmounts:
		return fmt.Errorf("%w: %s", mount.ErrSubmounts, below[0].Mountpoint)
	case wanted.Deleted || at.in.Deleted:
		return syscall.ENOENT // as Linux: a removed directory is neither source nor target
	case isMapped(req.IDMap) && from.in != nil && from.in.isIDMapped():
		return fmt.Errorf("ID map of a source with an ID map: %w", errors.ErrUnsupported)
	case slices.Contains([]string{"bind", "rbind", "none", "auto"}, req.FSType):
		return fmt.Errorf("file system type %s: %w: %w", req.FSType, mount.ErrUnknownFSType, syscall.ENODEV)
	case options.Clear&mount.ReadOnly != 0 && isReadOnly(wanted):
		return mount.ErrNotAsRequested // the file system itself is read-only
	case req.FSType != "" && f.hangs(req.FSType, req.Target):
		return errHangs
	}
	return nil
}

// attach attaches the wanted mount, and copies of the mounts below its source if included.
func (f *Fake) attach(at, from spot, wanted *fakeMount, req mount.Request, options mount.Options) {
	k := &f.kernel
	wanted.ID = k.newID()
	wanted.Mountpoint = req.Target
	tree := []*fakeMount{wanted}
	if req.Submounts == mount.IncludeSubmounts {
		tree = append(tree, k.cloneSubmounts(from, wanted, req, options)...)
	}
	for _, m := range tree {
		k.setPropagation(m, req.Propagation)
	}
	k.attach(tree, at.in, req.Target)
	if req.Propagation != mount.PropagationShared {
		for _, m := range tree {
			k.setPropagation(m, req.Propagation)
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

// requestedMount returns the mount that req describes, and the source of a bind mount. The
// device of a file system is known only once it is mounted.
func (f *Fake) requestedMount(req mount.Request, options mount.Options) (from spot, wanted *fakeMount, err error) {
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
	if at.mode&fs.ModeDevice != 0 {
		if options, err = req.DeviceOptions(options); err != nil {
			return spot{}, nil, err
		}
	}
	bind := clone(at.in, req, options)
	bind.Root = at.root
	bind.isFile = !at.mode.IsDir()
	bind.real, err = f.realRoot(at)
	return at, bind, err
}

// clone returns a copy of the mount with the flags of a request.
func clone(m *fakeMount, req mount.Request, options mount.Options) *fakeMount {
	c := *m
	c.setFlags(options.Apply(m.Flags), m.isIDMapped() || isMapped(req.IDMap))
	return &c
}

func isMapped(ids mount.IDMap) bool { return len(ids.UIDs)+len(ids.GIDs) > 0 }

// namesDirectory reports whether a path can only name a directory.
func namesDirectory(p string) bool { return strings.HasSuffix(p, "/") || path.Base(p) == "." }

// realRoot returns the real file at a spot, nil if there is none.
func (f *Fake) realRoot(at spot) (fs.FileInfo, error) {
	if at.real == "" { // in a fake file system, or removed
		return at.in.real, nil
	}
	info, err := f.kernel.files.Lstat(at.real)
	return info, withoutPath(err)
}

func newFileSystem(req mount.Request, options mount.Options) *fakeMount {
	m := &fakeMount{Info: mount.Info{
		Root:         "/",
		FSType:       req.FSType,
		Source:       req.Source,
		SuperOptions: slices.Concat([]string{readOnlyOption(options.Set)}, options.Data),
	}}
	m.setFlags(options.Set, isMapped(req.IDMap))
	return m
}

// checkExisting returns nil if the mount that exists is the wanted one. File systems are compared
// by their types and sources.
func (k *kernel) checkExisting(existing, wanted *fakeMount, req mount.Request) error {
	same := k.showSame(existing, wanted)
	if req.FSType != "" {
		same = existing.FSType == wanted.FSType && existing.Root == wanted.Root && k.isFrom(existing, wanted.Source)
	}
	switch {
	case !same:
		return mount.ErrMounted
	case existing.isIDMapped() != wanted.isIDMapped():
		return fmt.Errorf("%w: the existing mount has an ID map: %t", mount.ErrMounted, existing.isIDMapped())
	case existing.Flags != wanted.Flags:
		return &mount.FlagsError{Have: existing.Flags, Want: wanted.Flags}
	}
	return nil
}

// isFrom reports whether a mount is of a source: of a block device by its number.
func (k *kernel) isFrom(existing *fakeMount, source string) bool {
	name := k.deviceName(source)
	if existing.Major != deviceMajor || !isDevice(name) {
		return existing.Source == source
	}
	minor, known := k.devices[name]
	return known && minor == existing.Minor
}

// remount changes the flags of the mount at the spot, and of no other.
func (f *Fake) remount(at spot, options mount.Options) error {
	if !at.isMountPoint() {
		return mount.ErrNotMounted
	}
	if options.Clear&mount.ReadOnly != 0 && slices.Contains(at.in.SuperOptions, "ro") {
		return mount.ErrNotAsRequested // the file system itself is read-only: the flags are reverted
	}
	at.in.setFlags(options.Apply(at.in.Flags), at.in.isIDMapped())
	return nil
}
