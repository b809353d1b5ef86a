package content

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A mounter is a volume for a pod.
type mounter struct {
	plugin  *Plugin
	written v1.VolumeSource // as written in the pod
	source  *v1.ProjectedVolumeSource
	pod     *v1.Pod
	points  []atomicdir.MountPoint // of the pod's mounts in the volume
}

// setUp sets the volume up, or updates a volume that is set up already. If an object is missing, or a getter
// fails, the error is transient and the volume is unchanged.
func (m *mounter) setUp(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	record, err := json.Marshal(m.written)
	if err != nil {
		return err
	}
	want := podvolume.Dir{Mode: 0o755, Record: record}
	if m.plugin.kind.memory {
		want.Mount = podvolume.Tmpfs(ctx, "mode=0755")
	}
	want.Fill = func(ctx context.Context, dir string) error { return m.fill(ctx, dir, args) }
	return m.plugin.dirs.SetUp(ctx, dir, want)
}

// checkArgs refuses arguments that these volumes cannot honour.
func checkArgs(args volume.MounterArgs) error {
	if err := podvolume.RefuseSizeAndLabel("a volume of files", args); err != nil {
		return err
	}
	if err := volume.ValidateID(field.NewPath("args", "fsUser"), args.FsUser); err != nil {
		return err
	}
	return volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup)
}

// fill writes the volume's files into its directory.
func (m *mounter) fill(ctx context.Context, dir string, args volume.MounterArgs) error {
	files, err := m.collect(ctx, args)
	if err != nil {
		return err
	}
	options := atomicdir.Options{GID: number(args.FsGroup), MountPoints: m.points}
	changed, err := atomicdir.Write(ctx, dir, files, options)
	var refused *atomicdir.InputError
	var left *atomicdir.LeftoverError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return fmt.Errorf("write the files of the volume: %w", err)
	case changed, errors.As(err, &left):
		return volume.AsUncertain(err)
	}
	return util.Transient(err)
}

func number(id *int64) *int {
	if id == nil {
		return nil
	}
	n := int(*id)
	return &n
}
