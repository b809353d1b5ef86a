package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A deviceVolume is a volume whose path is, or leads to, a block device.
type deviceVolume struct {
	plugin   *Plugin
	name     string
	uid      types.UID
	path     string // as written in the volume
	at       location
	fsType   string
	options  []string
	volumeRO bool // the volume itself is read-only
	usedRO   bool // this use of it is read-only
}

func (p *Plugin) deviceVolume(spec *volume.Spec) (*deviceVolume, error) {
	if p.host == nil {
		return nil, errNotInitialised
	}
	if err := p.check(spec); err != nil {
		return nil, err
	}
	pv := spec.PersistentVolume
	at, err := p.locate(pv.Spec.Local.Path)
	if err != nil {
		return nil, err
	}
	anyUse := *spec
	anyUse.ReadOnly = false
	return &deviceVolume{
		plugin: p, name: spec.Name(), uid: pv.UID, path: pv.Spec.Local.Path, at: at, fsType: fsTypeOf(spec),
		options: spec.MountOptions(), volumeRO: anyUse.IsReadOnly(), usedRO: spec.IsReadOnly(),
	}, nil
}

func fsTypeOf(spec *volume.Spec) string {
	if t := spec.PersistentVolume.Spec.Local.FSType; t != nil {
		return *t
	}
	return ""
}

func checkFSType(spec *volume.Spec) error {
	t := fsTypeOf(spec)
	if t == "" || slices.Contains(mountable, t) {
		return nil
	}
	at := field.NewPath("spec", "persistentVolume", "spec", "local", "fsType")
	return field.NotSupported(at, input.Shorten(t), mountable)
}

// failed returns a [*DeviceError] of this volume.
func (v *deviceVolume) failed(err error) error {
	if err == nil {
		return nil
	}
	return &DeviceError{Volume: v.name, Path: v.path, Err: err}
}

// queryInTime runs work that changes nothing and may have to wait for a device, and returns
// soon after ctx ends. Queries with one key wait for each other, so a device that does not
// answer costs one stuck call.
func queryInTime[T any](ctx context.Context, p *Plugin, key string, work func() (T, error)) (T, error) {
	value, _, err := keylock.Await(ctx, p.queries.Key(key), ctxend.Plugin, work, nil)
	if err != nil && ctx.Err() != nil && volume.KindOf(err) == volume.Final {
		err = util.Transient(err)
	}
	return value, err
}

// findNodeInTime calls findNode, for callers without a lock.
func (v *deviceVolume) findNodeInTime(ctx context.Context) (node string, isDevice bool, err error) {
	type found struct {
		node     string
		isDevice bool
	}
	f, err := queryInTime(ctx, v.plugin, "node\x00"+v.name, func() (found, error) {
		node, isDevice, err := v.findNode()
		return found{node, isDevice}, err
	})
	return f.node, f.isDevice, err
}

// findNode reports whether the volume is a device, and the path of its node. A missing path is no
// device, unless the volume had one before.
func (v *deviceVolume) findNode() (node string, isDevice bool, err error) {
	if !v.at.mayBeDevice {
		return "", false, nil
	}
	node, k, err := v.plugin.follow(v.at)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		if rec, recErr := v.plugin.records.read(v.name); recErr == nil && rec == nil && !v.at.links {
			return "", false, nil
		}
		return "", true, v.failed(volume.AsTransient(fmt.Errorf("%w: %w", ErrDeviceGone, err)))
	case errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENAMETOOLONG):
		return "", false, v.failed(err) // final
	case err != nil:
		return "", false, v.failed(util.Transient(err))
	case k == kindDevice:
		return node, true, nil
	case k == kindLink:
		return "", true, v.failed(fmt.Errorf("%s is %w", node, ErrLink))
	case v.at.links:
		return "", true, v.failed(ErrNotDevice)
	}
	return "", false, nil
}

const mostLinks = 8

// follow follows links as far as permitted, and returns the path and the kind of their end.
func (p *Plugin) follow(at location) (node string, k kind, err error) {
	node = at.path
	for range mostLinks {
		k, err = p.nodes.kind(node)
		if err != nil || k != kindLink || !p.holdsLinks(path.Dir(node)) {
			return node, k, err
		}
		to, err := p.nodes.readLink(node)
		if err != nil {
			return node, k, err
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(node), to)
		}
		node = path.Clean(to)
		if _, own := p.ownDir(node); own {
			return node, kindOther, nil
		}
	}
	return node, kindLink, &fs.PathError{Op: "follow", Path: at.path, Err: syscall.ELOOP}
}

func (p *Plugin) holdsLinks(dir string) bool {
	return slices.ContainsFunc(p.roots, func(r root) bool { return r.links && r.resolved == dir })
}

// use opens the device for work, until ctx ends. Like [disk.Disks.Use] it returns while stuck
// work continues.
func (v *deviceVolume) use(ctx context.Context, work func(ctx context.Context, d *disk.Device) error) error {
	node, isDevice, err := v.findNode()
	if err != nil {
		return err
	}
	if !isDevice {
		return v.failed(ErrNotDevice)
	}
	var opened atomic.Bool
	err = v.plugin.disks.Use(ctx, node, func(ctx context.Context, d *disk.Device) error {
		opened.Store(true)
		return work(ctx, d)
	})
	switch {
	case errors.Is(err, mount.ErrUncertain) && !errors.Is(err, volume.ErrUncertain):
		return v.failed(volume.AsUncertain(err))
	case opened.Load() || err == nil:
		return err
	}
	return v.openFailed(err)
}

func (v *deviceVolume) openFailed(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV), errors.Is(err, disk.ErrNoMedium):
		return v.failed(volume.AsTransient(fmt.Errorf("%w: %w", ErrDeviceGone, err)))
	case errors.Is(err, syscall.ENOTBLK):
		return v.failed(fmt.Errorf("%w: %w", ErrNotDevice, err))
	}
	return v.failed(util.Transient(err))
}

// mountOptions returns the options of the mount that all pods share.
func (v *deviceVolume) mountOptions(deviceRO bool) []string {
	options := slices.Clone(v.options)
	if v.volumeRO || deviceRO {
		options = append(options, "ro")
	}
	return options
}
