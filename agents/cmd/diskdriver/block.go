package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
)

// A rawDisk is the loop device of a disk for a pod. It is mapped while the pod's directory of devices has a link to it.
type rawDisk struct {
	plugin *plugin
	name   string
	podDir string
	global string // where the disk would be mounted: calls for one disk exclude each other by this path
}

func (p *plugin) newRawDisk(name string, pod types.UID) (d rawDisk, err error) {
	if err = volume.ValidatePathComponent(field.NewPath("volumeName"), name); err != nil {
		return d, err
	}
	dir, err := p.host.PodVolumeDeviceDir(pod, pluginName)
	if err != nil {
		return d, err
	}
	global, err := deviceMounter{p}.GetDeviceMountPath(volume.NewSpecFromPersistentVolume(newPersistentVolume(name), false))
	return rawDisk{p, name, dir, global}, err
}

// NewBlockVolumeMapper implements [volume.BlockVolumePlugin]. A raw disk can be written.
func (p *plugin) NewBlockVolumeMapper(spec *volume.Spec, pod *v1.Pod) (volume.BlockVolumeMapper, error) {
	name, err := p.GetVolumeName(spec)
	switch {
	case err != nil:
		return nil, err
	case pod == nil:
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	case !spec.IsBlock():
		return nil, fmt.Errorf("map disk %s, which is mounted: %w", input.Quote(name), volume.ErrNotSupported)
	case spec.IsReadOnly():
		return nil, fmt.Errorf("map disk %s read-only: %w", input.Quote(name), volume.ErrNotSupported)
	}
	return p.newRawDisk(name, pod.UID)
}

// NewBlockVolumeUnmapper implements [volume.BlockVolumePlugin].
func (p *plugin) NewBlockVolumeUnmapper(volumeName string, podUID types.UID) (volume.BlockVolumeUnmapper, error) {
	return p.newRawDisk(volumeName, podUID)
}

// GetGlobalMapPath implements [volume.BlockVolume]. The directory has no entries of pods, and need not exist: the driver
// records the pods.
func (d rawDisk) GetGlobalMapPath(spec *volume.Spec) (string, error) {
	return deviceMounter{d.plugin}.GetDeviceMountPath(spec)
}

// GetPodDeviceMapPath implements [volume.BlockVolume].
func (d rawDisk) GetPodDeviceMapPath() (dir, name string) { return d.podDir, d.name }

func (d rawDisk) link() string { return filepath.Join(d.podDir, d.name) }

// GetMetrics implements [volume.MetricsProvider]: it returns the size of the device.
func (d rawDisk) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	if err := checkLink(ctx, d.link()); err != nil {
		return nil, err
	}
	device, err := d.plugin.device(ctx, d.name)
	if err != nil {
		return nil, util.Transient(err)
	}
	size, err := fsusage.BlockSize(ctx, device.Path)
	if err != nil {
		return nil, util.Transient(err)
	}
	return &volume.Metrics{Time: metav1.Now(), Capacity: resource.NewQuantity(size, resource.BinarySI)}, nil
}

// exclusively runs work as the only call for the disk. It returns soon after ctx ends; the next call waits for the end of
// the work then. The operation is for errors.
func (d rawDisk) exclusively(ctx context.Context, operation string, work func(context.Context) error) error {
	return d.plugin.mounts.Exclusively(ctx, d.global, func(ctx context.Context, _ string) error {
		if err := work(ctx); err != nil {
			return fmt.Errorf("%s disk %s: %w", operation, input.Quote(d.name), err)
		}
		return nil
	})
}

// SetUpDevice implements [volume.BlockVolumeMapper]. It returns no path, which MapPodDevice does.
func (d rawDisk) SetUpDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	return "", d.exclusively(ctx, "set up", func(ctx context.Context) error {
		_, err := d.setUp(ctx)
		return err
	})
}

// setUp returns the disk's device. If it fails it takes the device down, unless the disk had one before.
func (d rawDisk) setUp(ctx context.Context) (loop.Device, error) {
	_, missing := d.plugin.device(ctx, d.name)
	isNew := errors.Is(missing, loop.ErrNotAttached)
	if missing != nil && !isNew {
		return loop.Device{}, util.Transient(missing)
	}
	device, err := d.plugin.attachDevice(ctx, d.name)
	if err != nil && isNew && volume.KindOf(err) != volume.Uncertain {
		if left := d.plugin.detachDevice(ctx, d.name); left != nil {
			err = volume.AsUncertain(errors.Join(err, left))
		}
	}
	return device, err
}

// MapPodDevice implements [volume.BlockVolumeMapper].
func (d rawDisk) MapPodDevice(ctx context.Context, _ volume.BlockVolumePaths) (string, error) {
	mapped := make(chan string, 1)
	err := d.exclusively(ctx, "map", func(ctx context.Context) error {
		device, err := d.setUp(ctx)
		if err != nil {
			return err
		}
		mapped <- device.Path
		return setLink(device.Path, d.link())
	})
	if err != nil {
		return "", err
	}
	return <-mapped, nil
}

// setLink makes a link and its directory. It replaces a link to another device: those of an earlier start of the system
// have other names.
func setLink(target, link string) error {
	switch there, err := os.Readlink(link); {
	case err == nil && there == target:
		return nil
	case err == nil:
		err = os.Remove(link)
		if err != nil {
			return volume.AsTransient(err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return errNoLink(err)
	}
	if err := os.MkdirAll(filepath.Dir(link), 0o750); err != nil {
		return volume.AsTransient(err)
	}
	return volume.AsTransient(os.Symlink(target, link))
}

// checkLink returns volume.ErrNotMounted if there is no link.
func checkLink(ctx context.Context, link string) error {
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	_, err := ctxend.Await(ctx, ctxend.Kernel, func() (string, error) { return os.Readlink(link) }, nil)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w", volume.ErrNotMounted, err)
	case err != nil && ctx.Err() != nil:
		return volume.AsTransient(err)
	}
	return errNoLink(err)
}

// errNoLink returns the error of a read of a link: a file in its place is not of the plugin.
func errNoLink(err error) error {
	if errors.Is(err, syscall.EINVAL) {
		return volume.AsUncertain(fmt.Errorf("another file is in the place of the link: %w", err))
	}
	return volume.AsTransient(err)
}

// UnmapPodDevice implements [volume.BlockVolumeUnmapper].
func (d rawDisk) UnmapPodDevice(ctx context.Context) error {
	return d.exclusively(ctx, "unmap", func(ctx context.Context) error {
		switch err := checkLink(ctx, d.link()); {
		case errors.Is(err, volume.ErrNotMounted):
			return nil
		case err != nil:
			return err
		}
		return volume.AsTransient(os.Remove(d.link()))
	})
}

// TearDownDevice implements [volume.BlockVolumeUnmapper]. A device that a program has open is errDeviceUsed.
func (d rawDisk) TearDownDevice(ctx context.Context, _ volume.BlockVolumePaths) error {
	return d.exclusively(ctx, "take down", func(ctx context.Context) error { return d.plugin.detachDevice(ctx, d.name) })
}

// ConstructBlockVolumeSpec implements [volume.BlockVolumePlugin].
func (p *plugin) ConstructBlockVolumeSpec(ctx context.Context, podUID types.UID, volumeName, mapPath string) (found volume.ReconstructedVolume, err error) {
	if _, err = p.newRawDisk(volumeName, podUID); err != nil {
		return found, err
	}
	at, err := p.mounts.Below(field.NewPath("mapPath"), mapPath)
	if err == nil {
		err = checkLink(ctx, at)
	}
	if err != nil {
		return found, err
	}
	pv, isBlock := newPersistentVolume(volumeName), v1.PersistentVolumeBlock
	pv.Spec.VolumeMode = &isBlock
	return volume.ReconstructedVolume{Spec: volume.NewSpecFromPersistentVolume(pv, false)}, nil
}
