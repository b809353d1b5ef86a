package hostpath

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// inPlace is the mounter of a volume whose path is the host path itself, see [Config.InPlace].
type inPlace struct{ *mounter }

// GetPath returns the host path. Symbolic links of [Config.Links] are in it as written.
func (m *inPlace) GetPath() string { return m.source.path }

// GetMetrics returns an error that wraps [volume.ErrNotSupported], as the kubelet's plugin
// measures no host path.
func (m *inPlace) GetMetrics(context.Context) (*volume.Metrics, error) {
	return nil, fmt.Errorf("metrics of host path %q, which is used in place: %w", m.source.path, volume.ErrNotSupported)
}

// SetUp implements [volume.Mounter]. It also removes the bind mount of a SetUp without
// [Config.InPlace] from the pod's directory: containers have bind mounts of their own.
// SetUpAt bind mounts the path at dir, as without InPlace.
func (m *inPlace) SetUp(ctx context.Context, args volume.MounterArgs) error {
	if err := podvolume.RefuseSizeAndLabel("a path of the host", args); err != nil {
		return err
	}
	there, err := m.prepare(ctx, m.source)
	if err != nil {
		return err
	}
	there.close()
	return (&unmounter{m.podVolume}).TearDown(ctx)
}
