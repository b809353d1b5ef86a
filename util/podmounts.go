package util

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodMounts does what [volume.Mounter] and [volume.Unmounter] promise for a plugin
// whose volume in a pod is one mount: one operation for each path at a time, the
// directory made and taken back, errors of the kinds that [volume.KindOf] tells
// apart. Paths must be strictly below the host's root; others are refused with a
// [*field.Error]. Methods are safe for concurrent use.
type PodMounts struct {
	host    volume.VolumeHost
	mounter mount.Interface
	locks   keylock.Map // by path
	tables  tables
}

// NewPodMounts returns the mounts on a host. It does nothing yet.
func NewPodMounts(host volume.VolumeHost, mounter mount.Interface) *PodMounts {
	return &PodMounts{host: host, mounter: mounter, tables: tables{mounter: mounter}}
}

// SetUp makes the directory and mounts there what req asks for; of req the target is
// set here. What it made it takes back if the mount fails, also if the mounter
// refuses the request; directories in which other volumes have come up meanwhile
// stay.
func (p *PodMounts) SetUp(ctx context.Context, dir string, req mount.Request) error {
	return p.Exclusively(ctx, dir, func(dir string) error {
		return p.Mount(ctx, dir, req)
	})
}

// TearDown unmounts what is at dir and removes the directory. Its parents stay.
func (p *PodMounts) TearDown(ctx context.Context, dir string) error {
	return p.Exclusively(ctx, dir, func(dir string) error {
		return p.Unmount(ctx, dir)
	})
}

// Exclusively runs work as the only one for dir, which is passed on as it is written
// shortest.
func (p *PodMounts) Exclusively(ctx context.Context, dir string, work func(dir string) error) error {
	dir, err := p.Below(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	unlock, err := p.locks.Lock(ctx, dir)
	if err != nil {
		return Transient(fmt.Errorf("waiting for another operation on %s: %w", dir, err))
	}
	defer unlock()
	return work(dir)
}

// IfIdle is Exclusively, if nobody else is at work on dir; else it does nothing and
// returns nil.
func (p *PodMounts) IfIdle(dir string, work func(dir string) error) error {
	dir, err := p.Below(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	unlock, ok := p.locks.TryLock(dir)
	if !ok {
		return nil
	}
	defer unlock()
	return work(dir)
}

// Mount is SetUp for work that runs exclusively.
func (p *PodMounts) Mount(ctx context.Context, dir string, req mount.Request) error {
	req.Target = dir
	made, err := safepath.MkdirAll(p.host.Root(), dir, 0o750)
	if err == nil {
		err = p.mounter.Mount(ctx, req)
	}
	if err == nil || errors.Is(err, mount.ErrUncertain) {
		return classifyMount(err)
	}
	if undo := safepath.RemoveMade(made, dir); undo != nil {
		return fmt.Errorf("%w: %w (cleaning up: %w)", volume.ErrUncertain, err, undo)
	}
	return classifyMount(err)
}

// MountFile is Mount for a source that is no directory: it makes the parents, and an
// empty file in which the source appears. An empty directory in that place, of a volume
// that was one, goes. [AlsoFile] is for Unmount.
func (p *PodMounts) MountFile(ctx context.Context, name string, req mount.Request) error {
	req.Target = name
	made, err := safepath.MkdirAll(p.host.Root(), path.Dir(name), 0o750)
	created := false
	if err == nil {
		created, err = p.createFile(name)
	}
	if err == nil {
		err = p.mounter.Mount(ctx, req)
	}
	if err == nil || errors.Is(err, mount.ErrUncertain) {
		return classifyMount(err)
	}
	if undo := removeFile(created, made, name); undo != nil {
		return fmt.Errorf("%w: %w (cleaning up: %w)", volume.ErrUncertain, err, undo)
	}
	return classifyMount(err)
}

func (p *PodMounts) createFile(name string) (created bool, err error) {
	created, err = safepath.CreateFile(p.host.Root(), name, 0o640)
	if !errors.Is(err, syscall.EISDIR) {
		return created, err
	}
	if err := safepath.Rmdir(name); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			err = fmt.Errorf("%w: %w", mount.ErrMounted, err)
		}
		return false, err
	}
	return safepath.CreateFile(p.host.Root(), name, 0o640)
}

// removeFile takes back what MountFile has made.
func removeFile(created bool, made, name string) error {
	if created {
		if err := safepath.RemoveEmptyFile(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return safepath.RemoveMade(made, path.Dir(name))
}

// Unmount is TearDown for work that runs exclusively.
func (p *PodMounts) Unmount(ctx context.Context, dir string, options ...UnmountOption) error {
	return classifyUnmount(UnmountMountPoint(ctx, p.mounter, dir, options...))
}

// CheckMounted fails with [volume.ErrNotMounted] if nothing is mounted at dir.
func (p *PodMounts) CheckMounted(ctx context.Context, dir string) error {
	mounted, err := p.mounter.IsMountPoint(ctx, dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return Transient(err)
	case !mounted:
		return fmt.Errorf("%w: %s", volume.ErrNotMounted, dir)
	}
	return nil
}

// errNotInTable: the path leads to a mount point that has another name.
var errNotInTable = errors.New("something is mounted there that the mount table does not show")

// At returns the mount at dir, and the table in which it is, which is shared with others
// who asked in the same moment and must not be changed. If nothing is mounted
// there the error wraps [volume.ErrNotMounted]; if something is that the table does
// not show under this path, [volume.ErrUncertain].
func (p *PodMounts) At(ctx context.Context, dir string) (mount.Info, mount.Table, error) {
	dir, err := p.Below(field.NewPath("mountPath"), dir)
	if err != nil {
		return mount.Info{}, nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return mount.Info{}, nil, err
	}
	table, err := p.tables.list(ctx)
	if err != nil {
		return mount.Info{}, nil, Transient(err)
	}
	at, ok := table.At(dir)
	if ok {
		return at, table, nil
	}
	if err := p.CheckMounted(ctx, dir); err != nil {
		return mount.Info{}, nil, err
	}
	return mount.Info{}, nil, fmt.Errorf("%w: %s: %w", volume.ErrUncertain, dir, errNotInTable)
}

// Below returns the path as it is written shortest, if it is strictly below the
// host's root. Its error is a [*field.Error] at the field.
func (p *PodMounts) Below(at *field.Path, written string) (string, error) {
	clean := path.Clean(written)
	root := strings.TrimSuffix(p.host.Root(), "/") + "/"
	reason := ""
	switch {
	case !strings.HasPrefix(clean, root):
		reason = "not below " + p.host.Root()
	case slices.Contains(strings.Split(written, "/"), ".."):
		reason = `the path must not contain ".."`
	case strings.ContainsRune(written, 0):
		reason = "a path holds no NUL"
	default:
		return clean, nil
	}
	return "", volume.Invalid(at, written, reason)
}

// Transient returns err as one after which nothing has changed.
func Transient(err error) error { return fmt.Errorf("%w: %w", volume.ErrTransient, err) }

// classifyMount says what is true of the volume after the mounter's error.
func classifyMount(err error) error {
	var refused *mount.InputError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mount.ErrUncertain):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	case errors.Is(err, mount.ErrMounted):
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	case errors.As(err, &refused), errors.Is(err, errors.ErrUnsupported), errors.Is(err, syscall.EINVAL),
		errors.Is(err, mount.ErrSubmounts):
		return err
	}
	return Transient(err)
}

// classifyUnmount says what is true of the volume after an unmount's error.
func classifyUnmount(err error) error {
	var refused *mount.InputError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, mount.ErrUncertain), errors.Is(err, ErrPartlyUnmounted):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	case errors.As(err, &refused):
		return err
	}
	return Transient(err)
}
