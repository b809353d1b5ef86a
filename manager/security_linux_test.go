package manager_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
)

// TestSecurityContext: volumes of pods with users and groups come up. Files created for a pod's
// user belong to the user; no other file does.
func TestSecurityContext(t *testing.T) {
	t.Run("fake", func(t *testing.T) {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		require.NoError(t, err)
		n, err := newNodeOn(dir, mounttest.NewFake(mount.Config{}))
		require.NoError(t, err)
		n.securityContext(t, ids{user: os.Getuid(), group: os.Getgid(), other: os.Getuid()}, "token")
	})
	t.Run("ordinary user", func(t *testing.T) {
		if !mounttest.Namespace(t) {
			return
		}
		n, err := newRealNode(newTmpfsDir(t))
		require.NoError(t, err)
		n.securityContext(t, ids{user: 1000, other: 1001}) // not mapped in the user namespace
	})
	t.Run("root", func(t *testing.T) {
		if !mounttest.RootNamespace(t) {
			return
		}
		n, err := newRealNode(newTmpfsDir(t))
		require.NoError(t, err)
		n.securityContext(t, ids{user: 1000, group: 2000, other: 1001, owner: 999}, "token")
	})
}

// ids are two users of pods, their group, and the owner of the disk.
type ids struct{ user, group, other, owner int }

func (n *realNode) securityContext(t *testing.T, as ids, besides ...string) {
	database := filepath.Join(n.dir, "disks/shared/database")
	require.NoError(t, os.WriteFile(database, []byte("precious"), 0o600))
	if as.owner != 0 {
		require.NoError(t, os.Chown(database, as.owner, as.owner))
	}
	owner, _ := ownersAt(t, database)
	stop := n.run(t.Context())
	for _, group := range []*int64{nil, int64Pointer(as.group)} {
		var pods []*v1.Pod
		for i, user := range []int{as.user, as.other} {
			pod := n.pod(i+1, append(besides, "shared", "scratch", "memory", "words", "seen")...)
			pod.Spec.SecurityContext = &v1.PodSecurityContext{
				RunAsUser: int64Pointer(user), FSGroup: group, SupplementalGroups: []int64{3000, 3001},
			}
			pods = append(pods, pod)
		}
		require.NoError(t, n.up(t.Context(), pods...))
		for i, pod := range pods {
			n.requireOwners(t, pod, []int{as.user, as.other}[i], group)
		}
		uid, gid := ownersAt(t, database)
		require.Equal(t, owner, uid, "a pod's user has taken the disk")
		if group != nil {
			require.EqualValues(t, *group, gid)
		}
		require.NoError(t, n.down(t.Context(), pods...))
	}
	require.NoError(t, stop())
}

// TestFSGroupOfSharedDisk: a disk that is mounted once for the node receives the group of the pod
// that uses it.
func TestFSGroupOfSharedDisk(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		mounttest.SkipWithout(t, "ext4", err)
	}
	n, err := newRealNode(newTmpfsDir(t))
	require.NoError(t, err)
	image, link := filepath.Join(n.dir, "image"), filepath.Join(n.dir, "links/disk")
	testbed.Image(t, image, 16<<20)
	require.NoError(t, os.Symlink(testbed.Loop(t, image), link))
	n.addSharedDisk(link)
	stop := n.run(t.Context())
	for _, group := range []*int64{nil, int64Pointer(2000), int64Pointer(3000)} {
		pod := n.pod(1, "shared")
		pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: group}
		require.NoError(t, n.up(t.Context(), pod))
		if group != nil {
			_, gid := ownersAt(t, n.manager.GetMountedVolumesForPod(pod.UID)["shared"].Path)
			require.EqualValues(t, *group, gid)
		}
		require.NoError(t, n.down(t.Context(), pod))
	}
	// The disk of the node is unmounted after the volumes of the pods.
	require.Eventually(t, func() bool { return len(n.manager.State().Volumes) == 0 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, stop())
}

// requireOwners checks the owners of the volumes that exist only in the pod.
func (n *realNode) requireOwners(t *testing.T, pod *v1.Pod, user int, group *int64) {
	t.Helper()
	for name, at := range n.manager.GetMountedVolumesForPod(pod.UID) {
		uid, gid := ownersAt(t, at.Path)
		if name != "shared" {
			require.Equal(t, os.Getuid(), uid, name)
		}
		if group != nil && (name == "scratch" || name == "memory") {
			require.EqualValues(t, *group, gid, name)
		}
		if name == "token" {
			uid, _ = ownersAt(t, filepath.Join(at.Path, "token"))
			require.Equal(t, user, uid, "the token is for the pod's user")
		}
	}
}

func ownersAt(t *testing.T, name string) (uid, gid int) {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return int(stat.Uid), int(stat.Gid)
}

func int64Pointer(n int) *int64 {
	n64 := int64(n)
	return &n64
}
