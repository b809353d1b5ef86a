package hostpath_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestInPlace: the path of a volume in place is the host path, nothing is mounted, and a bind
// mount that the plugin has made before goes.
func TestInPlace(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}}
	s := inPod(n.paths+"/made", v1.HostPathDirectoryOrCreate)
	bound, err := n.plugin.NewMounter(s, pod)
	require.NoError(t, err)
	require.NoError(t, bound.SetUp(t.Context(), volume.MounterArgs{}))
	old := bound.GetPath()
	mounted, err := n.mounter.IsMountPoint(t.Context(), old)
	require.NoError(t, err)
	require.True(t, mounted)

	n = nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.InPlace = true })
	require.False(t, n.plugin.SupportsMountOption())
	m, err := n.plugin.NewMounter(s, pod)
	require.NoError(t, err)
	require.Equal(t, n.paths+"/made", m.GetPath())
	table, err := n.mounter.List(t.Context())
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
		require.NoDirExists(t, old)
		now, err := n.mounter.List(t.Context())
		require.NoError(t, err)
		require.Len(t, now, len(table)-1)
	}
	_, err = m.GetMetrics(t.Context())
	require.ErrorIs(t, err, volume.ErrNotSupported)
	u, err := n.plugin.NewUnmounter(s.Name(), "uid")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(n.paths+"/made/file", nil, 0o600))
	require.NoError(t, u.TearDown(t.Context()))
	require.FileExists(t, n.paths+"/made/file")

	var wrong *hostpath.TypeError
	m, err = n.plugin.NewMounter(inPod(n.paths+"/made", v1.HostPathFile), pod)
	require.NoError(t, err)
	require.ErrorAs(t, m.SetUp(t.Context(), volume.MounterArgs{}), &wrong, "the type is checked")
	_, err = n.plugin.NewMounter(persistent(n.paths+"/made", v1.HostPathDirectory, "noexec"), pod)
	require.ErrorIs(t, err, volume.ErrNotSupported)
	require.ErrorContains(t, err, "InPlace")
}
