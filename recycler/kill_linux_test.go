package recycler_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"recycle": func(p mounttest.Process) { require.NoError(p, recycleIn(context.Background(), p.Args[0])) },
	})
}

// recycleIn recycles the volume "disk" below a directory, as a process does that has just been
// started.
func recycleIn(ctx context.Context, dir string) error {
	mounter := mount.New(mount.Config{StagingDir: dir + "/staging"})
	defer func() { _ = mounter.Close() }()
	host, err := volume.NewHost(context.Background(), dir+"/root")
	if err != nil {
		return err
	}
	mgr, err := volume.NewVolumePluginMgr(context.Background(), host, local.New(local.Config{Mounter: mounter, Roots: []string{dir + "/disks"}}))
	if err != nil {
		return err
	}
	r, err := recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: mgr.FindPluginBySpec, Workers: 1})
	if err != nil {
		return err
	}
	return r.Recycle(ctx, "disk", volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir + "/disks/disk"}},
		},
	}, false))
}

// TestLocalKilled: after SIGKILL at any place the same again ends with an empty volume,
// and nothing that is mounted.
func TestLocalKilled(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	disk := dir + "/disks/disk"
	require.NoError(t, os.Mkdir(dir+"/root", 0o755))
	program := func() *exec.Cmd {
		require.NoError(t, os.MkdirAll(disk+"/a/b", 0o755))
		require.NoError(t, os.WriteFile(disk+"/a/b/file", nil, 0o600))
		require.NoError(t, os.WriteFile(dir+"/disks/precious", nil, 0o600))
		return mounttest.Program("recycle", dir)
	}
	mounter := mount.New(mount.Config{})
	defer func() { _ = mounter.Close() }()
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		require.NoError(t, recycleIn(t.Context(), dir), place)
		requireEmpty(t, disk)
		require.FileExists(t, dir+"/disks/precious")
		table, err := mounter.List(t.Context())
		require.NoError(t, err)
		for _, info := range table {
			require.NotContains(t, info.Mountpoint, dir, place)
		}
		left, err := filepath.Glob(dir + "/root/plugins/*/*/*")
		require.NoError(t, err)
		require.Empty(t, left, place)
	})
	t.Logf("killed at %d places", kills)
	require.GreaterOrEqual(t, kills, 10)
}
