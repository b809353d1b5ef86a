package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/diskprobe"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A deviceVolume is a volume whose path is, or leads to, a block device.
type deviceVolume struct {
	plugin   *Plugin
	name     string
	uid      types.UID
	path     string // as the volume has it
	at       location
	fsType   string
	options  []string
	volumeRO bool // the volume itself is read-only
	usedRO   bool // so is this use of it
	found    []diskprobe.Found
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
	const longest = 40
	at := field.NewPath("spec", "persistentVolume", "spec", "local", "fsType")
	return field.NotSupported(at, t[:min(len(t), longest)], mountable)
}

// failed is an error of this volume's device.
func (v *deviceVolume) failed(err error) error {
	if err == nil {
		return nil
	}
	return &DeviceError{Volume: v.name, Path: v.path, Err: err}
}

// inTime runs work that may have to wait for a device, and returns soon after ctx
// ends. Work that goes on has to see for itself that it changes nothing then, or
// that nobody else does meanwhile.
func inTime(ctx context.Context, work func() error) error {
	if ctx.Err() != nil {
		return util.Transient(ctxend.Error(ctx))
	}
	done := make(chan error, 1)
	go func() { done <- work() }()
	if err, ok := ctxend.Receive(ctx, done, time.Second); ok {
		return err
	}
	return fmt.Errorf("%w: %w", volume.ErrUncertain, ctxend.Error(ctx))
}

// look returns what a volume is: a device, and then the path of its node, or not. A
// path at which nothing is is no device, unless the volume had one before.
func (v *deviceVolume) look() (node string, is bool, err error) {
	if !v.at.mayBeDevice {
		return "", false, nil
	}
	node, k, err := v.plugin.follow(v.at)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		if rec, recErr := v.plugin.records.read(v.name); recErr == nil && rec == nil && !v.at.links {
			return "", false, nil
		}
		return "", true, v.failed(fmt.Errorf("%w: %w: %w", volume.ErrTransient, ErrDeviceGone, err))
	case errors.Is(err, syscall.ELOOP) || errors.Is(err, syscall.ENAMETOOLONG):
		return "", false, v.failed(err) // it stays so
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

// follow goes from link to link as far as that is allowed, and returns where that
// ends.
func (p *Plugin) follow(at location) (node string, k kind, err error) {
	node = at.path
	for range mostLinks {
		k, err = p.devices.kind(node)
		if err != nil || k != kindLink || !p.holdsLinks(path.Dir(node)) {
			return node, k, err
		}
		to, err := p.devices.readLink(node)
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

// open opens the device for as long as something is done with it.
func (v *deviceVolume) open() (disk, error) {
	node, is, err := v.look()
	if err != nil {
		return nil, err
	}
	if !is {
		return nil, v.failed(ErrNotDevice)
	}
	d, err := v.plugin.devices.open(node)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.ENODEV), errors.Is(err, errNoMedium):
		return nil, v.failed(fmt.Errorf("%w: %w: %w", volume.ErrTransient, ErrDeviceGone, err))
	case errors.Is(err, syscall.ENOTBLK):
		return nil, v.failed(fmt.Errorf("%w: %w", ErrNotDevice, err))
	case err != nil:
		return nil, v.failed(util.Transient(err))
	}
	return d, nil
}

// mountOptions are those of the mount that all pods share.
func (v *deviceVolume) mountOptions(deviceRO bool) []string {
	options := slices.Clone(v.options)
	if v.volumeRO || deviceRO {
		options = append(options, "ro")
	}
	return options
}

// bindOptions leaves out what is for the file system.
func bindOptions(options []string) []string {
	var flags []string
	for _, option := range options {
		req := mount.Request{Source: "/source", Target: "/target", Options: []string{option}}
		if _, err := req.Parse(mount.Allow{SUID: true, Dev: true}); err == nil {
			flags = append(flags, option)
		}
	}
	return flags
}
