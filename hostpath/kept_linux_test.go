package hostpath_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A disturbingMounter calls a function before each mount, which it then may refuse.
type disturbingMounter struct {
	mount.Interface
	before func(mount.Request) error
}

func (d *disturbingMounter) Mount(ctx context.Context, req mount.Request) error {
	if err := d.before(req); err != nil {
		return err
	}
	return d.Interface.Mount(ctx, req)
}

// TestFailureUnderAnotherPod checks that a failed SetUp keeps the directory or file that it
// created if another pod's volume is up on it by then.
func TestFailureUnderAnotherPod(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for kind, inside := range map[v1.HostPathType]string{v1.HostPathDirectoryOrCreate: "/data", v1.HostPathFileOrCreate: ""} {
		m := &disturbingMounter{}
		n := newNode(t, mount.Config{}, func(c *hostpath.Config) { m.Interface, c.Mounter = c.Mounter, m })
		spec := inPod(n.paths+"/new", kind)
		first, second := n.mounterOf(t, spec), n.mounterFor(t, spec, "2")
		refused := errors.New("refused")
		m.before = func(mount.Request) error {
			m.before = func(mount.Request) error { return nil }
			require.NoError(t, second.SetUp(t.Context(), volume.MounterArgs{}))
			return refused
		}
		require.ErrorIs(t, first.SetUp(t.Context(), volume.MounterArgs{}), refused)
		require.NoError(t, os.WriteFile(second.GetPath()+inside, []byte("data"), 0o600))
		text, err := os.ReadFile(n.paths + "/new" + inside)
		require.NoError(t, err, "the second pod is up on what is at the path")
		require.Equal(t, "data", string(text))

		require.NoError(t, first.SetUp(t.Context(), volume.MounterArgs{}))
		require.NoError(t, n.unmounterFor(t, "2").TearDown(t.Context()))
		n.tearDown(t)
		require.FileExists(t, n.paths+"/new"+inside)
	}
}
