package customplugin

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is the directory of a volume for a pod.
type podVolume struct {
	plugin *Plugin
	path   string
}

// GetPath returns the path of the volume for the pod.
func (v podVolume) GetPath() string { return v.path }

// GetMetrics measures the file system that holds the share.
func (v podVolume) GetMetrics(ctx context.Context) (*volume.Metrics, error) {
	return v.plugin.mounts.GetMetrics(ctx, v.path)
}

type mounter struct {
	podVolume
	source   string
	readOnly bool
}

// GetAttributes returns ReadOnly as the specification has it; a share that is not read-only
// is Managed: it is given to the pod's group.
func (m *mounter) GetAttributes() volume.Attributes {
	return volume.Attributes{ReadOnly: m.readOnly, Managed: !m.readOnly}
}

// SetUp implements [volume.Mounter].
func (m *mounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}

// SetUpAt implements [volume.Mounter]: it bind mounts the share, read-only from the first
// instant if required. With FsGroup a share that no pod uses is first given to the group,
// unless the specification is read-only. FsUser has no effect, as in Kubernetes: a share
// has no files for one user alone.
func (m *mounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if args.DesiredSize != nil || args.SELinuxLabel != "" {
		return fmt.Errorf("a share has neither size nor label: %w", volume.ErrNotSupported)
	}
	if err := volume.ValidateID(field.NewPath("args", "fsGroup"), args.FsGroup); err != nil {
		return err
	}
	req := mount.Request{Source: m.source}
	if m.readOnly || args.ReadOnly {
		req.Options = []string{"ro"}
	}
	return m.plugin.mounts.Exclusively(ctx, dir, func(ctx context.Context, dir string) error {
		return m.setUp(ctx, dir, req, args)
	})
}

type unmounter struct{ podVolume }

// TearDown implements [volume.Unmounter].
func (u *unmounter) TearDown(ctx context.Context) error { return u.TearDownAt(ctx, u.path) }

// TearDownAt implements [volume.Unmounter]. The files of the share stay.
func (u *unmounter) TearDownAt(ctx context.Context, dir string) error {
	return u.plugin.mounts.TearDown(ctx, dir)
}
