package projectquota

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"golang.org/x/sys/unix"
)

// TestLayouts: the structures have the sizes of the kernel's.
func TestLayouts(t *testing.T) {
	require.EqualValues(t, 160, unsafe.Sizeof(quotaState{}))
	require.EqualValues(t, 72, unsafe.Sizeof(quotaLimits{}))
	require.EqualValues(t, 28, unsafe.Sizeof(attributes{}))
}

// TestCheckWithoutQuota: the error of a file system without project quotas says so.
func TestCheckWithoutQuota(t *testing.T) {
	require.ErrorIs(t, Check(t.TempDir()), ErrOff)
	err := Check(filepath.Join(t.TempDir(), "missing"))
	if hasCall() {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
}

// TestQuota: a directory of a project takes as many bytes as the limit of the project, and no more.
func TestQuota(t *testing.T) {
	for _, disk := range []testbed.Disk{
		{FSType: "ext4", Size: 64 << 20, Options: []string{"-q"}, ProjectQuota: "prjquota"},
		{FSType: "xfs", Size: 320 << 20, Options: []string{"-q"}, ProjectQuota: "prjquota"},
	} {
		t.Run(disk.FSType, func(t *testing.T) { disk.Run(t, testQuota) })
	}
}

// TestUnenforced: a file system that counts the use of projects, and does not limit it, has no quota.
func TestUnenforced(t *testing.T) {
	disk := testbed.Disk{FSType: "xfs", Size: 320 << 20, Options: []string{"-q"}, ProjectQuota: "pqnoenforce"}
	disk.Run(t, func(t *testing.T, root string) { require.ErrorIs(t, Check(root), ErrOff) })
}

func testQuota(t *testing.T, root string) {
	require.NoError(t, Check(root))
	dir := root + "/claim"
	require.NoError(t, os.Mkdir(dir, 0o755))
	project, err := Choose(root, "claim")
	require.NoError(t, err)
	require.NoError(t, SetLimit(root, project, 1<<20))
	use, err := Query(root, project)
	require.NoError(t, err)
	require.Equal(t, Use{Limit: 1 << 20}, use)
	other, err := Choose(root, "claim")
	require.NoError(t, err)
	require.NotEqual(t, project, other, "a project with a limit is not free")
	require.NoError(t, Assign(dir, project))
	have, err := ProjectOf(dir)
	require.NoError(t, err)
	require.Equal(t, project, have)

	require.NoError(t, os.Mkdir(dir+"/sub", 0o755))
	require.NoError(t, os.WriteFile(dir+"/sub/half", make([]byte, 512<<10), 0o600))
	err = testbed.WithoutCapability(unix.CAP_SYS_RESOURCE, func() error { // root's ext4 has no limits with it
		return os.WriteFile(dir+"/sub/more", make([]byte, 1<<20), 0o600)
	})
	require.True(t, errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT), err)
	require.NoError(t, os.WriteFile(root+"/beside", make([]byte, 2<<20), 0o600))
	use, err = Query(root, project)
	require.NoError(t, err)
	require.LessOrEqual(t, use.Bytes, int64(1<<20))
	require.GreaterOrEqual(t, use.Bytes, int64(512<<10))

	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, SetLimit(root, project, 0))
	require.Eventually(t, func() bool { // xfs frees inodes later
		use, err := Query(root, project)
		return err == nil && use.IsZero()
	}, time.Minute, 10*time.Millisecond)
}
