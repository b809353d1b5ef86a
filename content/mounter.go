package content

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is a volume's place for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the file system that the volume has to itself. A ConfigMap has none:
// its files are counted, see fsusage.Walker, at most every ten seconds, and are what is
// used; capacity and what is free are those of the node's file system around them.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.dirs.GetMetrics(ctx, v.path)
}

type mounter struct {
	podVolume
	written v1.VolumeSource // as the pod has it
	source  *v1.ProjectedVolumeSource
	pod     *v1.Pod
}

// GetAttributes says that the volume is read-only for a pod, and that ownership is
// managed.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: true, Managed: true, SELinuxRelabel: true}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter], and brings a volume that is up already up to date.
// The directory must be below the host's root. If something is missing, or a getter
// fails, the error is transient and the volume as it was.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if err := checkArgs(args); err != nil {
		return err
	}
	record, err := json.Marshal(m.written)
	if err != nil {
		return err
	}
	want := util.PodDir{Mode: 0o755, Record: record}
	if m.plugin.kind.memory {
		want.Mount = util.Tmpfs("mode=0755")
	}
	want.Fill = func(ctx context.Context, dir string) error { return m.fill(ctx, dir, args) }
	return m.plugin.dirs.SetUp(ctx, dir, want)
}

// checkArgs refuses what a pod asks for and would not get.
func checkArgs(args volume.MounterArgs) error {
	switch {
	case args.SELinuxLabel != "":
		return fmt.Errorf("MounterArgs.SELinuxLabel: %w", volume.ErrNotSupported)
	case args.DesiredSize != nil:
		return fmt.Errorf("MounterArgs.DesiredSize: %w", volume.ErrNotSupported)
	}
	if err := volume.ValidateID(field.NewPath("args", "fsUser"), args.FsUser); err != nil {
		return err
	}
	return volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup)
}

// fill makes the files in the directory what they should be.
func (m *mounter) fill(ctx context.Context, dir string, args volume.MounterArgs) error {
	files, err := m.collect(ctx, args)
	if err != nil {
		return err
	}
	options := atomicdir.Options{GID: number(args.FsGroup)}
	changed, err := atomicdir.Write(ctx, dir, files, options)
	var refused *atomicdir.InputError
	var left *atomicdir.LeftoverError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return fmt.Errorf("the files of the volume: %w", err)
	case changed, errors.As(err, &left):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
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

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter], but removes what is in the volume. The
// directory must be below the host's root. Its parents stay: they are the pod's.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.dirs.TearDown(ctx, dir)
}
