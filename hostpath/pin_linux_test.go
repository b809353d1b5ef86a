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

// A swapper puts something else at the path between the look at it and the mount.
type swapper struct {
	mount.Interface
	swap      func()
	pathsOnly bool
}

func (s swapper) Mount(ctx context.Context, req mount.Request) error {
	if s.pathsOnly && req.SourceFile != nil {
		return errors.ErrUnsupported
	}
	s.swap()
	return s.Interface.Mount(ctx, req)
}

// TestInspectedFileIsMounted checks that the inspected file is mounted, not another one that replaces it,
// and that no descriptor stays open.
func TestInspectedFileIsMounted(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	n.things(t, withoutDevices)
	target := n.unmounter(t).GetPath()
	swap := func() {
		require.NoError(t, os.Rename(n.paths+"/file", n.paths+"/away"))
		require.NoError(t, os.WriteFile(n.paths+"/file", []byte("another"), 0o600))
	}
	config := hostpath.Config{Roots: []string{n.paths}}
	setUp := func(m mount.Interface) error {
		config.Mounter = m
		plugin := hostpath.New(config)
		require.NoError(t, plugin.Init(t.Context(), n.host))
		mounter, err := plugin.NewMounter(inPod(n.paths+"/file", v1.HostPathFile), pod("1"))
		require.NoError(t, err)
		return mounter.SetUp(t.Context(), volume.MounterArgs{})
	}
	require.NoError(t, setUp(n.mounter)) // the mounter may keep descriptors of its own
	n.tearDown(t)
	noLeaks := mounttest.NoLeaks(t)
	require.NoError(t, setUp(swapper{n.mounter, swap, false}))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "file", string(text))
	n.tearDown(t)
	require.NoError(t, setUp(swapper{n.mounter, func() {}, true}))
	text, err = os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "another", string(text), "of those who take paths, what is there")
	n.tearDown(t)
	noLeaks()
}
