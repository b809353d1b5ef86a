package local_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// TestRemovedDirectory: a volume whose directory was removed on the node is known by its path, stays
// up for its pod, and is torn down. Another directory in its place is another pod's alone.
func TestRemovedDirectory(t *testing.T) {
	remount := volume.MounterArgs{IsRemount: true}
	forGroup := volume.MounterArgs{IsRemount: true, FsGroup: new(int64)}
	*forGroup.FsGroup = int64(os.Getegid())
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		for _, again := range []bool{true, false} {
			s := spec(n.disks+"/disk", "noexec")
			require.NoError(t, os.MkdirAll(n.disks+"/disk", 0o755))
			first := n.mounter(t, s, "1")
			require.NoError(t, first.SetUp(t.Context(), volume.MounterArgs{}))
			require.NoError(t, os.Mkdir(n.disks+"/new", 0o755)) // before the inode is free
			require.NoError(t, os.Remove(n.disks+"/disk"))
			if again {
				require.NoError(t, os.Rename(n.disks+"/new", n.disks+"/disk"))
			}
			for _, args := range []volume.MounterArgs{remount, forGroup} {
				require.NoError(t, first.SetUp(t.Context(), args))
			}
			require.Error(t, first.SetUp(t.Context(), volume.MounterArgs{}), "it is not the volume of a new pod")
			for _, options := range [][]string{{"ro", "noexec"}, {"exec"}} {
				require.Error(t, n.mounter(t, spec(n.disks+"/disk", options...), "1").SetUp(t.Context(), remount), options)
			}
			other := n.mounter(t, spec(n.disks+"/other", "noexec"), "1")
			require.Error(t, other.SetUp(t.Context(), remount), "it was another directory")

			found, err := n.plugin.ConstructVolumeSpec(t.Context(), "pv", first.GetPath())
			require.NoError(t, err)
			require.Equal(t, n.disks+"/disk", found.Spec.PersistentVolume.Spec.Local.Path)
			require.NoError(t, n.mounter(t, found.Spec, "1").SetUp(t.Context(), remount))
			outside := local.New(local.Config{Mounter: m, Roots: []string{n.host.Root()}})
			require.NoError(t, outside.Init(t.Context(), n.host))
			_, err = outside.ConstructVolumeSpec(t.Context(), "pv", first.GetPath())
			require.ErrorIs(t, err, volume.ErrUncertain)

			second := n.mounter(t, s, "2").SetUp(t.Context(), volume.MounterArgs{})
			require.Equal(t, again, second == nil, "%v", second)
			require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
			require.NoDirExists(t, first.GetPath())
			require.NoError(t, n.unmounter(t, "2").TearDown(t.Context()))
			require.Empty(t, mountsBelow(t, m, n.host.Root()))
		}
	})
}

// TestRemovedReadOnly: a read-only volume is not taken for a writable one.
func TestRemovedReadOnly(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		args := volume.MounterArgs{ReadOnly: true}
		v := n.mounter(t, spec(n.disks+"/disk"), "1")
		require.NoError(t, v.SetUp(t.Context(), args))
		require.NoError(t, os.Remove(n.disks+"/disk"))
		require.Error(t, v.SetUp(t.Context(), volume.MounterArgs{IsRemount: true}))
		args.IsRemount = true
		require.NoError(t, v.SetUp(t.Context(), args))
		require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
	})
}
