package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestInputErrorNamesOperation: the error of a refused request begins with its operation.
func TestInputErrorNamesOperation(t *testing.T) {
	ctx := t.Context()
	for name, m := range map[string]mount.Interface{
		"kernel": mount.New(mount.Config{}),
		"fake":   mounttest.NewFake(mount.Config{}),
	} {
		t.Run(name, func(t *testing.T) {
			_, query := m.IsMountPoint(ctx, "relative")
			_, refs := m.MountRefs(ctx, "relative")
			_, from := m.MountsFrom(ctx, "")
			_, resolve := m.Resolve(ctx, "relative")
			for op, err := range map[string]error{
				"mount":          m.Mount(ctx, mount.Request{Source: "/a", Target: "relative"}),
				"unmount":        m.Unmount(ctx, "relative"),
				"unmount tree":   m.UnmountTree(ctx, "relative"),
				"isolate":        m.(mount.Isolator).Isolate(ctx, "relative"),
				"is mount point": query,
				"mount refs":     refs,
				"mounts from":    from,
				"resolve":        resolve,
			} {
				var input *mount.InputError
				require.ErrorAs(t, err, &input, op)
				require.Equal(t, op, input.Op)
				require.ErrorContains(t, err, op+": "+input.Field+" ")
			}
		})
	}
}
