package local_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

func provisionProgram(p mounttest.Process) {
	n := provisioningIn(p, p.Args[0], mounttest.NewFake(mount.Config{}))
	_, err := n.provision(claimOptions("pvc-1", "1Mi"))
	require.NoError(p, err)
}

func deleteProgram(p mounttest.Process) {
	n := provisioningIn(p, p.Args[0], mounttest.NewFake(mount.Config{}))
	pv, err := n.provision(claimOptions("pvc-1", "1Mi"))
	if volume.KindOf(err) == volume.Transient {
		return // is being deleted: not the first state
	}
	require.NoError(p, err)
	require.NoError(p, n.delete(pv))
}

// TestProvisioningKilled: after SIGKILL at any place the next process finds the directory by its name, and
// deletes all of it.
func TestProvisioningKilled(t *testing.T) {
	for _, verb := range []string{"provision", "delete"} {
		t.Run(verb, func(t *testing.T) {
			dir := testbed.Dir(t)
			n := provisioningIn(t, dir, mounttest.NewFake(mount.Config{}))
			whole, err := n.provision(claimOptions("pvc-1", "1Mi"))
			require.NoError(t, err)
			reset := func() {
				require.NoError(t, n.delete(whole))
				n.requireEmpty(t)
				if verb == "delete" {
					_, err := n.provision(claimOptions("pvc-1", "1Mi"))
					require.NoError(t, err)
					require.NoError(t, os.MkdirAll(whole.Spec.Local.Path+"/lost+found/sub", 0o755))
				}
			}
			kills := mounttest.KillAtEachCall(t, func() *exec.Cmd {
				reset()
				return mounttest.Program(verb, dir)
			}, func(place string) {
				next := provisioningIn(t, dir, mounttest.NewFake(mount.Config{}))
				pv, err := next.provision(claimOptions("pvc-1", "1Mi"))
				switch {
				case err == nil:
					require.Equal(t, whole.Spec, pv.Spec, place)
					info, err := os.Lstat(pv.Spec.Local.Path)
					require.NoError(t, err, place)
					require.Equal(t, os.ModeDir|0o777, info.Mode(), place)
				case verb == "delete":
					require.Equal(t, volume.Transient, volume.KindOf(err), "%s: %v", place, err)
				default:
					require.NoError(t, err, place)
				}
				require.NoError(t, next.delete(whole), place)
				next.requireEmpty(t, place)
			})
			require.Positive(t, kills)
		})
	}
}

// TestProvisionQuota: the file system limits a volume to its capacity, Delete removes the limit, and an
// interrupted Provision continues with its project.
func TestProvisionQuota(t *testing.T) {
	for _, disk := range []testbed.Disk{
		{FSType: "ext4", Size: 64 << 20, Options: []string{"-q"}, ProjectQuota: "prjquota"},
		{FSType: "xfs", Size: largeDisk, Options: []string{"-q"}, ProjectQuota: "prjquota"},
	} {
		t.Run(disk.FSType, func(t *testing.T) { disk.Run(t, testProvisionQuota) })
	}
}

// TestDeleteSubvolumes: subvolumes of btrfs, which pods may create, are deleted with the volume.
func TestDeleteSubvolumes(t *testing.T) {
	testbed.Disk{FSType: "btrfs", Size: 256 << 20, Options: []string{"-q"}}.Run(t, func(t *testing.T, dir string) {
		n := provisioningIn(t, dir, mount.New(mount.Config{}))
		pv, err := n.provision(claimOptions("pvc-1", "8Mi"))
		require.NoError(t, err)
		for _, name := range []string{"sub", "lost+found"} {
			testbed.Subvolume(t, pv.Spec.Local.Path, name)
			testbed.Fill(t, pv.Spec.Local.Path, name+"/a/b")
		}
		testbed.Snapshot(t, pv.Spec.Local.Path+"/sub", pv.Spec.Local.Path, "snapshot")
		require.NoError(t, n.delete(pv))
		n.requireEmpty(t)
	})
}

func testProvisionQuota(t *testing.T, dir string) {
	n := provisioningIn(t, dir, mount.New(mount.Config{}))
	o := claimOptions("pvc-1", "8Mi")
	o.StorageClass.Parameters[local.QuotaParameter] = "require"
	pv, err := n.provision(o)
	require.NoError(t, err)
	require.Regexp(t, `^project \d+$`, pv.Annotations[local.QuotaAnnotation])
	require.NotContains(t, pv.Annotations, volume.ProvisioningNoteAnnotation)
	other, err := n.provision(claimOptions("pvc-2", "8Mi"))
	require.NoError(t, err)
	require.NotEqual(t, pv.Annotations[local.QuotaAnnotation], other.Annotations[local.QuotaAnnotation])

	write := func(path string, size int) error {
		return testbed.WithoutCapability(unix.CAP_SYS_RESOURCE, func() error {
			return os.WriteFile(path, make([]byte, size), 0o600)
		})
	}
	require.NoError(t, write(pv.Spec.Local.Path+"/fits", 7<<20))
	err = write(pv.Spec.Local.Path+"/more", 2<<20)
	require.True(t, errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT), err)
	require.NoError(t, write(other.Spec.Local.Path+"/fits", 7<<20))

	again, err := n.provision(o)
	require.NoError(t, err)
	require.Equal(t, pv, again)
	require.NoError(t, n.delete(other))

	// As after a crash before the record of the finished directory.
	require.NoError(t, os.Remove(pv.Spec.Local.Path+"/fits"))
	require.NoError(t, os.Remove(pv.Spec.Local.Path+"/more"))
	record := filepath.Dir(pv.Spec.Local.Path) + "/.volumekit/claims/pvc-1"
	text, err := os.ReadFile(record)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(record, []byte(`{"state":"making"`+string(text[len(`{"state":"ready"`):])), 0o600))
	again, err = provisioningIn(t, dir, n.mounter).provision(o)
	require.NoError(t, err)
	require.Equal(t, pv, again)

	m, err := n.plugin.NewMounter(volume.NewSpecFromPersistentVolume(pv, false), pod("1"))
	require.NoError(t, err)
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	metrics, err := m.GetMetrics(context.Background())
	require.NoError(t, err)
	require.EqualValues(t, 8<<20, metrics.Capacity.Value(), "the pod sees the size of its volume")
	u, err := n.plugin.NewUnmounter(pv.Name, "1")
	require.NoError(t, err)
	require.NoError(t, u.TearDown(t.Context()))
	require.NoError(t, n.delete(pv))
	n.requireEmpty(t)
}
