package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/hostfile"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.tearDown(ctx, u.target) }

// TearDownAt implements [volume.Unmounter]: it calls NodeUnpublishVolume, by the data in the file of the
// volume. It repairs the file of the staging path first, which this file may be the last one to describe. A volume
// without a file is not published. If the file is broken, or missing from a mounted
// volume, the volume is found by the mount table; otherwise the error is uncertain and wraps
// [ErrUnknownVolume], and nothing is removed.
//
// A driver that is not registered is a transient error that wraps [ErrNotRegistered].
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	t, err := u.plugin.targetAt(field.NewPath("dir"), dir)
	if err != nil {
		return err
	}
	return u.tearDown(ctx, t)
}

func (u *unmounter) tearDown(ctx context.Context, t target) (err error) {
	defer brief.Shorten(&err)
	if ctx.Err() != nil {
		return volume.AsTransient(ctxend.Error(ctx))
	}
	p := u.plugin
	err = p.mounts.Exclusively(ctx, t.path, func(ctx context.Context, _ string) error {
		data, file, err := p.openData(t)
		if err != nil {
			data, err = p.dataOf(ctx, t)
		}
		defer closeFile(file)
		if errors.Is(err, volume.ErrNotMounted) {
			return nil
		}
		if err == nil {
			err = p.repairStaged(ctx, data)
		}
		if err != nil {
			return err
		}
		return p.unpublishAt(ctx, t, data, file)
	})
	if err != nil {
		return fmt.Errorf("unpublish the volume at %s: %w", t.path, err)
	}
	return nil
}

func (p *Plugin) unpublishAt(ctx context.Context, t target, data voldata.Data, file *hostfile.Open) error {
	c, _, err := p.clientOf(ctx, data.DriverName)
	if err != nil {
		return downError(err)
	}
	return downCall{plugin: p, target: t, data: data, file: file, send: func(ctx context.Context) error {
		_, err := c.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: data.VolumeHandle, TargetPath: t.path})
		return err
	}}.run(ctx)
}

// ErrUnknownVolume is wrapped by the uncertain error for a path whose file is broken, or missing while the
// path is mounted, and that no other file describes. A file vol_data.json with driverName and volumeHandle
// repairs it, as does the next set-up of the volume.
var ErrUnknownVolume = errors.New("driver and handle of the volume are not known")

// dataOf returns the data of the volume at a target of a pod. It repairs a missing or broken file by the
// mount table. If no volume is up at the target, which has neither a file nor a mount, it removes empty
// directories, and returns an error that wraps volume.ErrNotMounted. The caller holds the lock of the
// target.
func (p *Plugin) dataOf(ctx context.Context, t target) (voldata.Data, error) {
	data, err := p.readData(t)
	switch {
	case err == nil:
		return data, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBrokenData):
		return data, util.Transient(err)
	}
	mounted, failed := p.isMounted(ctx, t.path)
	if failed != nil {
		return data, util.Transient(failed)
	}
	switch {
	case mounted:
		return p.repair(ctx, t, err)
	case !errors.Is(err, fs.ErrNotExist): // the call may be in flight, and a driver need not mount
		return data, volume.AsUncertain(fmt.Errorf("%s: %w: %w", t.path, ErrUnknownVolume, err))
	}
	if err := p.removeTarget(ctx, t); err != nil {
		return data, volume.AsUncertain(fmt.Errorf("remove a volume without data: %w", err))
	}
	return data, fmt.Errorf("%s: %w", t.path, volume.ErrNotMounted)
}

// readData reads the file of a target, and checks its untrusted names.
func (p *Plugin) readData(t target) (voldata.Data, error) {
	data, err := p.files.read(t.file)
	if err == nil {
		err = checkDataOf(t, data)
	}
	if err != nil {
		return voldata.Data{}, err
	}
	return data, nil
}

// openData is readData for a file whose state is written next. After an error the file is nil.
func (p *Plugin) openData(t target) (voldata.Data, *hostfile.Open, error) {
	data, file, err := p.files.open(t.file)
	if err == nil {
		err = checkDataOf(t, data)
	}
	if err != nil {
		closeFile(file)
		return voldata.Data{}, nil, err
	}
	return data, file, nil
}

func closeFile(file *hostfile.Open) {
	if file != nil {
		_ = file.Close() // nothing is buffered
	}
}

func checkDataOf(t target, data voldata.Data) error {
	if err := checkData(data); err != nil {
		return fmt.Errorf("%w: %s: %w", errBrokenData, t.file, err)
	}
	return nil
}

// checkData validates the names in a file.
func checkData(data voldata.Data) error {
	at := field.NewPath("vol_data")
	if err := checkDriverName(at.Child("driverName"), data.DriverName); err != nil {
		return err
	}
	return checkHandle(at.Child("volumeHandle"), data.VolumeHandle)
}
