package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/csi/internal/hostfile"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
)

// errStillMounted: a driver has reported success, or does not implement the call.
var errStillMounted = errors.New("the path is still mounted after the call of the driver")

// A downCall unstages or unpublishes a volume.
type downCall struct {
	plugin *Plugin
	target target
	data   voldata.Data
	file   *hostfile.Open                  // with the data, which the caller closes, too; nil: it is not open
	send   func(ctx context.Context) error // nil: the driver needs no call
}

// run makes the call, and removes the file and the directories of the target. The caller holds the lock
// of the target. The error is transient or uncertain.
func (d downCall) run(ctx context.Context) error {
	if d.send != nil {
		if err := d.markReverting(); err != nil {
			return util.Transient(err)
		}
		if err := d.plugin.exclusively(ctx, d.data.DriverName, d.data.VolumeHandle, d.send); err != nil {
			return downError(err)
		}
		d.plugin.expands.forget(volumeName(d.data.DriverName, d.data.VolumeHandle), d.target.path)
	}
	if err := d.plugin.removeTarget(ctx, d.target); err != nil {
		return volume.AsUncertain(err)
	}
	return nil
}

// markReverting records that the call may have been sent, and closes the file.
func (d downCall) markReverting() error {
	defer closeFile(d.file)
	data := d.data
	if call := d.plugin.callOfThisBoot(data); call == nil {
		data.Call = &voldata.Call{Boot: d.plugin.boot}
	} else if call.State == voldata.Reverting {
		return nil
	}
	data = data.WithState(voldata.Reverting)
	if d.file != nil {
		text, err := textOf(d.target.file, data)
		if err != nil {
			return err
		}
		if done, err := d.file.Overwrite(text); done || err != nil {
			return err
		}
	}
	return d.plugin.files.writeState(d.target.file, d.data, data)
}

// removeTarget removes a target that is not mounted, with its file and its directories. A mounted
// target stays, with an error. The target is an empty directory or an empty file.
func (p *Plugin) removeTarget(ctx context.Context, t target) error {
	mounted, err := p.isMounted(ctx, t.path)
	if err != nil {
		return err
	}
	if mounted {
		return fmt.Errorf("%s: %w", t.path, errStillMounted)
	}
	if dir := path.Dir(t.file); path.Dir(t.path) == dir && slices.Equal(t.own, []string{dir}) {
		err := p.files.RemoveWithDir(t.file, path.Base(t.path))
		if !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	err = safepath.Rmdir(context.Background(), t.path)
	if errors.Is(err, syscall.ENOTDIR) {
		err = safepath.RemoveEmptyFile(context.Background(), t.path) // of a device
	}
	if err := ignoreMissing(err); err != nil {
		return err
	}
	if err := ignoreMissing(p.files.Remove(t.file)); err != nil {
		return err
	}
	return rmdirs(t.own...)
}

// isMounted reports whether a path is a mount point. A missing path is none.
func (p *Plugin) isMounted(ctx context.Context, at string) (bool, error) {
	mounted, err := p.config.Mounter.IsMountPoint(ctx, at)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return mounted, err
}
