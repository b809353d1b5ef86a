package reconstruction

import (
	"context"

	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// scopeOf returns the plugin's scope of a directory that it does not recognize.
func scopeOf(ctx context.Context, plugin volume.VolumePlugin, f poddirs.Volume) (scope volume.LeftoverScope) {
	able, ok := volume.As[volume.LeftoverVolumePlugin](plugin)
	if !ok {
		return scope
	}
	var err error
	defer func() {
		if err != nil {
			scope = volume.LeftoverScope{}
		}
	}()
	defer plugincall.RecoverPanic(&err)
	scope, err = able.GetLeftoverScope(ctx, volume.LeftoverDir{PodUID: f.Pod, VolumeName: podvolume.ViewedName(f.Name), Path: f.Path, Block: f.Block})
	return scope
}
