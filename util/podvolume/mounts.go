package podvolume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/intime"
	"github.com/volumekit/volumekit/util/internal/unmounting"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Mounts does what [volume.Mounter] and [volume.Unmounter] promise for a plugin
// whose volume in a pod is one mount: one operation for each path at a time, the
// directory made and taken back, errors of the kinds that [volume.KindOf] tells
// apart. Paths must be strictly below the host's root or one of its target directories;
// others are refused with a [*field.Error]. Methods are safe for concurrent use.
//
// A value that [NewMounts] did not make, or that it made without a host or a mounter,
// refuses every call with a [*field.Error].
//
// Methods return soon after ctx ends. If the file system of that directory does not
// answer, work may continue then: the error wraps [volume.ErrUncertain], and the next
// operation on the path waits for the end of that work.
type Mounts struct {
	host    volume.VolumeHost
	mounter mount.Interface
	locks   keylock.Map // by path
	tables  tables
}

var (
	errNoHost    = field.Required(field.NewPath("host"), "volumes need a host")
	errNoMounter = field.Required(field.NewPath("mounter"), "volumes need a mounter")
	errNoWork    = field.Required(field.NewPath("work"), "must not be nil")
)

// check refuses Mounts without a host or a mounter.
func (p *Mounts) check() error {
	switch {
	case p == nil || unmounting.IsNil(p.host) || p.host.Root() == "":
		return errNoHost
	case unmounting.IsNil(p.mounter):
		return errNoMounter
	}
	return nil
}

// NewMounts returns the mounts on a host. It executes no system call.
func NewMounts(host volume.VolumeHost, mounter mount.Interface) *Mounts {
	return &Mounts{host: host, mounter: mounter, tables: tables{mounter: mounter}}
}

// SetUp makes the directory and mounts req there; it sets the target of req. If the mount
// fails, or the mounter refuses the request, SetUp removes the directories that it made,
// except those in which other volumes have come up meanwhile.
func (p *Mounts) SetUp(ctx context.Context, dir string, req mount.Request) error {
	return p.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		return p.Mount(ctx, dir, req)
	})
}

// SetUpNew is SetUp of a bind mount at a directory that is missing, with a
// [mount.DirectoryMounter]. With another mounter, and in the cases that one declines, it has
// changed nothing and returns false, as it does while another operation has the path. It calls end
// once, if it is not nil, when the work is over: that is after its return if ctx has ended and a
// file system does not answer.
func (p *Mounts) SetUpNew(ctx context.Context, dir string, req mount.Request, end func()) (done bool, err error) {
	defer brief.Shorten(&err)
	if end == nil {
		end = func() {}
	}
	dir, err = p.Below(field.NewPath("dir"), dir)
	if err != nil {
		end()
		return false, err
	}
	unlock, ok := p.locks.TryLock(dir)
	if !ok {
		end()
		return false, nil
	}
	done, err = p.mountNew(ctx, dir, req, mount.NoWait)
	if !errors.Is(err, mount.ErrWouldWait) {
		unlock()
		end()
		return done && err == nil, err
	}
	err = intime.Run(ctx, volume.ErrUncertain, func(ctx context.Context) error {
		defer end()
		defer unlock()
		done, err := p.mountNew(ctx, dir, req, mount.MayWait)
		if !done && err == nil || errors.Is(err, mount.ErrWouldWait) {
			err = errDeclined
		}
		return err
	})
	if errors.Is(err, errDeclined) {
		return false, nil
	}
	return err == nil, err
}

// errDeclined ends a SetUpNew that has changed nothing.
var errDeclined = errors.New("left to the general calls")

// newMode is the mode of new directories, before umask.
const newMode = 0o750

func (p *Mounts) mountNew(ctx context.Context, dir string, req mount.Request, wait mount.Patience) (done bool, err error) {
	m, ok := mount.As[mount.DirectoryMounter](p.mounter)
	if !ok {
		return false, nil
	}
	req.Target = dir
	done, err = m.MountNew(ctx, req, mount.NewDirectory{Perm: newMode, Below: p.rootOf(dir), Wait: wait})
	if errors.Is(err, mount.ErrWouldWait) {
		return false, err
	}
	return done || err != nil, classifyMount(err)
}

// TearDown unmounts the file systems at dir and removes the directory. Its parents stay.
func (p *Mounts) TearDown(ctx context.Context, dir string) (err error) {
	defer brief.Shorten(&err)
	dir, err = p.Below(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	unlock, err := lockPath(ctx, &p.locks, dir)
	if err != nil {
		return err
	}
	undone, done := unmounting.Remove(ctx, p.mounter, dir, mount.NoWait)
	if done {
		unlock()
		return nil
	}
	return intime.Run(ctx, volume.ErrUncertain, func(ctx context.Context) error {
		defer unlock()
		return p.Unmount(ctx, dir, func(o *unmounting.Options) { o.Undone = undone })
	})
}

// Exclusively runs work as the only one for dir, which is passed on as it is written
// shortest. Work gets a context that ends with ctx, and passes it to the methods of p. If
// work has not ended soon after ctx has, Exclusively returns without it; others are kept
// away from dir until work has ended. So work must not write to variables that the caller
// reads after an error. Work that is nil is refused with a [*field.Error].
func (p *Mounts) Exclusively(ctx context.Context, dir string, work func(ctx context.Context, dir string) error) error {
	dir, err := p.Below(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	if work == nil {
		return errNoWork
	}
	return runExclusively(ctx, &p.locks, dir, volume.ErrUncertain, func(ctx context.Context) error { return work(ctx, dir) })
}

// IfIdle is Exclusively if no other call works on dir; else it does nothing and returns
// nil.
func (p *Mounts) IfIdle(ctx context.Context, dir string, work func(ctx context.Context, dir string) error) (err error) {
	defer brief.Shorten(&err)
	dir, err = p.Below(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	if work == nil {
		return errNoWork
	}
	unlock, ok := p.locks.TryLock(dir)
	if !ok {
		return nil
	}
	return intime.Run(ctx, volume.ErrUncertain, func(ctx context.Context) error {
		defer unlock()
		return work(ctx, dir)
	})
}

// Mount is SetUp for work that runs exclusively.
func (p *Mounts) Mount(ctx context.Context, dir string, req mount.Request) (err error) {
	defer brief.Shorten(&err)
	if err := p.check(); err != nil {
		return err
	}
	return intime.Run(ctx, volume.ErrUncertain, func(ctx context.Context) error { return p.mount(ctx, dir, req) })
}

func (p *Mounts) mount(ctx context.Context, dir string, req mount.Request) error {
	if ctx.Err() != nil {
		return util.Transient(ctxend.Error(ctx))
	}
	if done, err := p.mountNew(ctx, dir, req, mount.MayWait); done {
		return err
	}
	req.Target = dir
	made, err := safepath.MkdirAll(context.Background(), p.rootOf(dir), dir, newMode)
	if err == nil {
		err = p.mountOrTighten(ctx, req)
	}
	if err == nil || errors.Is(err, mount.ErrUncertain) {
		return classifyMount(err)
	}
	if undo := safepath.RemoveMade(context.Background(), made, dir); undo != nil {
		return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, undo))
	}
	return classifyMount(err)
}

// mountOn is mount on a directory that exists.
func (p *Mounts) mountOn(ctx context.Context, dir string, req mount.Request) error {
	req.Target = dir
	return classifyMount(p.mountOrTighten(ctx, req))
}

// MountWith is Mount with a function that mounts at dir, such as a call of a program, for work that runs
// exclusively. The kind of the function's error is the condition of the mount; without an error dir must be a
// mount point. If it is none, or the error is not uncertain, MountWith removes the directories that it made.
func (p *Mounts) MountWith(ctx context.Context, dir string, mountAt func(ctx context.Context) error) (err error) {
	defer brief.Shorten(&err)
	if err := p.check(); err != nil {
		return err
	}
	return intime.Run(ctx, volume.ErrUncertain, func(ctx context.Context) error { return p.mountWith(ctx, dir, mountAt) })
}

func (p *Mounts) mountWith(ctx context.Context, dir string, mountAt func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return util.Transient(ctxend.Error(ctx))
	}
	made, err := safepath.MkdirAll(context.Background(), p.rootOf(dir), dir, newMode)
	if err != nil {
		err = util.Transient(err)
	} else if err = mountAt(ctx); err == nil {
		err = p.CheckMounted(ctx, dir)
		switch {
		case errors.Is(err, volume.ErrNotMounted):
			err = volume.AsTransient(err)
		case err != nil:
			err = volume.AsUncertain(err)
		}
	}
	if err == nil || errors.Is(err, volume.ErrUncertain) {
		return err
	}
	if undo := safepath.RemoveMade(context.Background(), made, dir); undo != nil {
		return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, undo))
	}
	return err
}

// MountFile is Mount for a source that is no directory: it makes the parents, and an
// empty file in which the source appears. An empty directory in that place, of a volume
// that was one, goes. [util.AlsoFile] is for Unmount.
func (p *Mounts) MountFile(ctx context.Context, name string, req mount.Request) (err error) {
	defer brief.Shorten(&err)
	if err := p.check(); err != nil {
		return err
	}
	return intime.Run(ctx, volume.ErrUncertain, func(ctx context.Context) error { return p.mountFile(ctx, name, req) })
}

func (p *Mounts) mountFile(ctx context.Context, name string, req mount.Request) error {
	if ctx.Err() != nil {
		return util.Transient(ctxend.Error(ctx))
	}
	req.Target = name
	made, err := safepath.MkdirAll(context.Background(), p.rootOf(name), path.Dir(name), 0o750)
	created := false
	if err == nil {
		created, err = p.createFile(name)
	}
	if err == nil {
		err = p.mountOrTighten(ctx, req)
	}
	if err == nil || errors.Is(err, mount.ErrUncertain) {
		return classifyMount(err)
	}
	if undo := removeFile(created, made, name); undo != nil {
		return volume.AsUncertain(fmt.Errorf("%w (cleaning up: %w)", err, undo))
	}
	return classifyMount(err)
}

func (p *Mounts) createFile(name string) (created bool, err error) {
	created, err = safepath.CreateFile(context.Background(), p.rootOf(name), name, 0o640)
	if !errors.Is(err, syscall.EISDIR) {
		return created, err
	}
	if err := safepath.Rmdir(context.Background(), name); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			err = fmt.Errorf("%w: %w", mount.ErrMounted, err)
		}
		return false, err
	}
	return safepath.CreateFile(context.Background(), p.rootOf(name), name, 0o640)
}

// removeFile takes back what MountFile has made.
func removeFile(created bool, made, name string) error {
	if created {
		if err := safepath.RemoveEmptyFile(context.Background(), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return safepath.RemoveMade(context.Background(), made, path.Dir(name))
}

// Unmount is TearDown for work that runs exclusively.
func (p *Mounts) Unmount(ctx context.Context, dir string, options ...util.UnmountOption) (err error) {
	defer brief.Shorten(&err)
	if err := p.check(); err != nil {
		return err
	}
	return classifyUnmount(util.UnmountMountPoint(ctx, p.mounter, dir, options...))
}

// CheckMounted fails with [volume.ErrNotMounted] if nothing is mounted at dir.
func (p *Mounts) CheckMounted(ctx context.Context, dir string) (err error) {
	defer brief.Shorten(&err)
	if err := p.check(); err != nil {
		return err
	}
	mounted, err := p.mounter.IsMountPoint(ctx, dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return util.Transient(err)
	case !mounted:
		return fmt.Errorf("%s: %w", dir, volume.ErrNotMounted)
	}
	return nil
}

// errNotInTable: the path leads to a mount point that has another name.
var errNotInTable = errors.New("the directory is a mount point that the mount table does not list")

// At returns the mount at dir, and a view of the mount table in which it is, which was
// read after the call began. Concurrent calls share one reading and one view. If nothing
// is mounted at dir the error wraps [volume.ErrNotMounted]; if something is that the table
// does not show under this path, [volume.ErrUncertain].
func (p *Mounts) At(ctx context.Context, dir string) (_ mount.Info, _ *mount.View, err error) {
	defer brief.Shorten(&err)
	dir, err = p.Below(field.NewPath("mountPath"), dir)
	if err != nil {
		return mount.Info{}, nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return mount.Info{}, nil, err
	}
	view, err := p.tables.view(ctx)
	if err != nil {
		return mount.Info{}, nil, util.Transient(err)
	}
	at, ok := view.At(dir)
	if ok {
		return at, view, nil
	}
	if err := p.CheckMounted(ctx, dir); err != nil {
		return mount.Info{}, nil, err
	}
	return mount.Info{}, nil, volume.AsUncertain(fmt.Errorf("%s: %w", dir, errNotInTable))
}

// DeviceMountRefs returns the other mount points of the mount at deviceMountPath, as GetDeviceMountRefs of
// [volume.DeviceMountableVolumePlugin] does. For a missing path, which a process leaves that is killed before it mounts or
// after it unmounts, the list is empty.
func (p *Mounts) DeviceMountRefs(ctx context.Context, deviceMountPath string) (refs []string, err error) {
	defer brief.Shorten(&err)
	dir, err := p.Below(field.NewPath("deviceMountPath"), deviceMountPath)
	if err != nil {
		return nil, err
	}
	refs, err = p.mounter.MountRefs(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, util.Transient(err)
	}
	return refs, nil
}

// Below returns the shortest spelling of a path that is strictly below the host's root or
// one of its target directories. Its error is a [*field.Error] at the field.
func (p *Mounts) Below(at *field.Path, written string) (string, error) {
	if err := p.check(); err != nil {
		return "", err
	}
	clean := path.Clean(written)
	reason := ""
	switch {
	case p.rootOf(clean) == "":
		reason = "not below " + strings.Join(append([]string{p.host.Root()}, p.host.TargetDirs()...), " or ")
	case slices.Contains(strings.Split(written, "/"), ".."):
		reason = `the path must not contain ".."`
	case strings.ContainsRune(written, 0):
		reason = "must not contain NUL"
	case isPathTooLong(written):
		reason = pathTooLong
	default:
		return clean, nil
	}
	return "", volume.Invalid(at, written, reason)
}

// IsTarget reports whether a volume may be mounted at a path of the mount table: it is strictly
// below the host's root or one of its target directories.
func (p *Mounts) IsTarget(mountpoint string) bool {
	return p.check() == nil && p.rootOf(mountpoint) != ""
}

// rootOf returns the root, or else the target directory, that a path is strictly below. Empty:
// it is below none.
func (p *Mounts) rootOf(clean string) string {
	for _, root := range append([]string{p.host.Root()}, p.host.TargetDirs()...) {
		if strings.HasPrefix(clean, strings.TrimSuffix(root, "/")+"/") {
			return root
		}
	}
	return ""
}

// classifyMount returns the error of a mount with its kind.
func classifyMount(err error) error {
	if err == nil {
		return nil
	}
	var refused *mount.InputError
	switch {
	case errors.Is(err, mount.ErrUncertain):
		return volume.AsUncertain(err)
	case errors.Is(err, mount.ErrMounted):
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	case errors.As(err, &refused), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EINVAL),
		errors.Is(err, mount.ErrSubmounts):
		return err
	}
	return util.Transient(err)
}

// classifyUnmount returns the error of an unmount with its kind.
func classifyUnmount(err error) error {
	if err == nil {
		return nil
	}
	var refused *mount.InputError
	switch {
	case errors.Is(err, mount.ErrUncertain), errors.Is(err, util.ErrPartlyUnmounted):
		return volume.AsUncertain(err)
	case errors.As(err, &refused):
		return err
	}
	return util.Transient(err)
}
