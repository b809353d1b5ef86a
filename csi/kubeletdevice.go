package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/loop"
)

// releaseKubeletDevice removes a kubelet's own mappings of a device: a bind mount
// of the device in the global map path, and a loop device that holds the device. Without the bind mount
// there is neither.
func (u *blockUnmapper) releaseKubeletDevice(ctx context.Context) error {
	at := path.Join(u.paths.dev, string(u.pod))
	if _, err := os.Lstat(at); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	loops, err := loop.List(ctx)
	if err != nil {
		return util.Transient(fmt.Errorf("find the loop device of %s: %w", at, err))
	}
	for _, device := range loops {
		if device.Backing != at {
			continue
		}
		if err := loop.Detach(ctx, device); err != nil {
			return util.Transient(fmt.Errorf("detach the loop device of %s: %w", at, err))
		}
	}
	if err := util.UnmountMountPoint(ctx, u.plugin.config.Mounter, at, util.AlsoFile()); err != nil {
		return util.Transient(fmt.Errorf("unmount the device of a kubelet: %w", err))
	}
	return nil
}
