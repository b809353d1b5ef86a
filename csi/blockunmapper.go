package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/hostfile"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type blockUnmapper struct{ blockVolume }

// UnmapPodDevice implements [volume.BlockVolumeUnmapper]: it calls NodeUnpublishVolume, by the data in
// the file of the volume, and removes the link of the pod. A device for which no call has been recorded,
// and that has neither a link nor an entry at its path, is not published.
func (u *blockUnmapper) UnmapPodDevice(ctx context.Context) error {
	err := u.exclusively(ctx, u.unmapDevice)
	if err != nil {
		return fmt.Errorf("unpublish block volume %s: %w", input.Quote(u.name), err)
	}
	return nil
}

func (u *blockUnmapper) unmapDevice(ctx context.Context) error {
	p, t := u.plugin, u.podTarget()
	mapped := u.checkMapped()
	data, err := p.readData(t)
	switch {
	case err == nil:
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBrokenData):
		return util.Transient(err)
	case errors.Is(err, fs.ErrNotExist) && errors.Is(mapped, volume.ErrNotMounted) && !u.isPublished():
		return nil
	default:
		if data, err = u.volumeData(ctx); err != nil {
			return err
		}
	}
	if err := u.releaseKubeletDevice(ctx); err != nil {
		return err
	}
	if data.DriverName != "" {
		c, _, err := p.clientOf(ctx, data.DriverName)
		if err != nil {
			return downError(err)
		}
		down := downCall{plugin: p, target: t, data: data, send: func(ctx context.Context) error {
			_, err := c.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: data.VolumeHandle, TargetPath: t.path})
			return err
		}}
		if err := down.run(ctx); err != nil {
			return err
		}
	}
	rmdirsIfEmpty(u.paths.publish)
	if err := p.files.RemoveLink(u.link()); err != nil && !errors.Is(err, hostfile.ErrNotLink) {
		return volume.AsUncertain(err)
	}
	return nil
}

// isPublished reports whether an entry is at the path of the device. A kubelet makes the link after the
// call.
func (b blockVolume) isPublished() bool {
	_, err := os.Lstat(b.published())
	return !errors.Is(err, fs.ErrNotExist)
}

// hasDevice reports whether the path of the pod has a device, and not only the empty file on which a driver had
// mounted one before the start of the system.
func (b blockVolume) hasDevice(ctx context.Context) (bool, error) {
	info, err := os.Lstat(b.published())
	switch {
	case err != nil:
		return false, ignoreMissing(err)
	case info.Mode()&(fs.ModeDevice|fs.ModeSymlink) != 0:
		return true, nil
	}
	return b.plugin.isMounted(ctx, b.published())
}

// volumeData returns the data in the file of the volume. They are zero if the file is missing and nothing
// is at the path of the device.
func (u *blockUnmapper) volumeData(ctx context.Context) (voldata.Data, error) {
	data, err := u.plugin.readData(u.stagingTarget())
	if err == nil {
		data.Call = nil // of the staging
		return data, nil
	}
	if errors.Is(err, fs.ErrNotExist) && !u.isPublished() {
		return voldata.Data{}, nil
	}
	return voldata.Data{}, volume.AsUncertain(fmt.Errorf("%s: %w: %w", u.published(), ErrUnknownVolume, err))
}

// errMapped: a driver must not unstage a volume that is published.
var errMapped = errors.New("the device is published to a pod")

// TearDownDevice implements [volume.BlockVolumeUnmapper]: it calls NodeUnstageVolume, if the driver has
// the capability STAGE_UNSTAGE_VOLUME or has staged the device when it had it, and removes the directories of
// the volume. It uses paths.GlobalMapPath alone. While the device is published to a pod the error is transient.
func (u *blockUnmapper) TearDownDevice(ctx context.Context, paths volume.BlockVolumePaths) error {
	if path.Clean(paths.GlobalMapPath) != u.paths.dev {
		return volume.Invalid(field.NewPath("paths", "globalMapPath"), paths.GlobalMapPath, "is not the global map path of the volume")
	}
	if err := u.exclusively(ctx, u.tearDownDevice); err != nil {
		return fmt.Errorf("unstage block volume %s: %w", input.Quote(u.name), err)
	}
	return nil
}

func (u *blockUnmapper) tearDownDevice(ctx context.Context) error {
	p, t := u.plugin, u.stagingTarget()
	if err := u.checkUnpublished(); err != nil {
		return err
	}
	data, err := p.readData(t)
	switch {
	case err == nil:
		return u.unstage(ctx, t, data)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBrokenData):
		return util.Transient(err)
	}
	if errors.Is(err, errBrokenData) { // a driver need not leave a trace in the staging directory
		return volume.AsUncertain(fmt.Errorf("%s: %w: %w", t.path, ErrUnknownVolume, err))
	}
	if _, missing := os.Lstat(t.path); !errors.Is(missing, fs.ErrNotExist) {
		names, _ := namesIn(t.path)
		if mounted, failed := p.isMounted(ctx, t.path); failed != nil || mounted || len(names) > 0 {
			return volume.AsUncertain(fmt.Errorf("%s: %w: %w", t.path, ErrUnknownVolume, errors.Join(err, failed)))
		}
	}
	if err := p.removeTarget(ctx, t); err != nil {
		return volume.AsUncertain(err)
	}
	return nil
}

func (u *blockUnmapper) unstage(ctx context.Context, t target, data voldata.Data) error {
	p := u.plugin
	c, caps, err := p.clientOf(ctx, data.DriverName)
	if err != nil {
		return downError(err)
	}
	down := downCall{plugin: p, target: t, data: data}
	_, missing := os.Lstat(t.path)
	if p.callOfThisBoot(data) != nil || caps.stage && (isStagedDevice(data) || missing == nil) {
		down.send = func(ctx context.Context) error { return unstageWith(ctx, c, caps, data.VolumeHandle, t.path) }
	}
	return down.run(ctx)
}

// checkUnpublished returns a transient error while the volume is published to a pod, or may be.
func (b blockVolume) checkUnpublished() error {
	published, err := namesIn(b.paths.publish)
	if err := ignoreMissing(err); err != nil {
		return util.Transient(err)
	}
	calls, err := namesIn(path.Dir(b.paths.data))
	if err := ignoreMissing(err); err != nil {
		return util.Transient(err)
	}
	for _, name := range calls {
		switch {
		case !strings.HasPrefix(name, podDataPrefix):
		case strings.HasSuffix(name, podDataSuffix):
			published = append(published, name)
		case strings.HasSuffix(name, podDataSuffix+hostfile.TemporarySuffix): // of a write before the call
			if err := b.plugin.files.RemoveOne(path.Join(path.Dir(b.paths.data), name)); err != nil {
				return util.Transient(err)
			}
		}
	}
	if len(published) > 0 {
		return volume.AsTransient(fmt.Errorf("%w: %s", errMapped, input.Quote(published[0])))
	}
	if err := rmdirs(b.paths.publish); err != nil {
		return util.Transient(err)
	}
	return nil
}
