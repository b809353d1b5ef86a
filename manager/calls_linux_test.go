package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podsProgram brings pods up, all at once, and then more, one after the other. Pods that are up
// already are those of an earlier run. Each has a local volume of its own.
func podsProgram(p mounttest.Process) {
	there, err := strconv.Atoi(p.Args[1])
	require.NoError(p, err)
	more, err := strconv.Atoi(p.Args[2])
	require.NoError(p, err)
	n, err := newRealNode(p.Args[0])
	require.NoError(p, err)
	pods := make([]*v1.Pod, there+more)
	for i := range pods {
		n.addDisk(p, i)
		pods[i] = n.pod(i, "shared")
		pods[i].Spec.Volumes[0].PersistentVolumeClaim.ClaimName = diskName(i)
	}
	stop := n.run(context.Background())
	require.NoError(p, n.up(context.Background(), pods[:there]...))
	for _, pod := range pods[there:] {
		require.NoError(p, n.up(context.Background(), pod))
	}
	require.NoError(p, stop())
}

func diskName(i int) string { return fmt.Sprint("disk-", i) }

// addDisk makes a local volume and its claim.
func (n *realNode) addDisk(p mounttest.Process, i int) {
	name := diskName(i)
	path := filepath.Join(n.dir, "disks", name)
	uid := "claim-" + name
	require.NoError(p, n.source.SetVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			ClaimRef:               &v1.ObjectReference{Namespace: "real", Name: name, UID: types.UID(uid)},
		},
	}))
	require.NoError(p, n.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "real", Name: name, UID: types.UID(uid)},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: name},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}))
}

// TestCallsOfOneMorePod pins the system calls of one more pod with a local volume of its own,
// from the event to the end of the wait. They do not depend on how many volumes there are:
//
//	openat2 statx close     the volume, twice: is it a directory
//	openat2 ... statx       the pod's directory does not exist yet: each part of the path is
//	                        opened, without waiting for a disk, twice
//	openat2 mkdirat         the pod's directories
//	openat2 ... move_mount  the volume's mount, see TestCallsOfVolume in package local
//	statmount ...           the new mount, for each of the kernel's two watchers
//	openat2 statx close     which mount it is
func TestCallsOfOneMorePod(t *testing.T) {
	// More pods than volumes, so that the calls for these, which vary, count little.
	few, many, sizes := 10, 410, []int{50, 200}
	switch {
	case testbed.Long():
		many, sizes = 1010, []int{100, 1_000, 10_000}
	case testing.Short():
		many, sizes = 210, []int{50}
	}
	runOnPinnedKernel(t, func() {
		for _, there := range sizes {
			count := func(more int) map[string]int {
				return mounttest.CountCalls(t, mounttest.Program("pods", newDiskDir(t, there+more), strconv.Itoa(there), strconv.Itoa(more)))
			}
			calls, total := callsPerItem(count(few), count(many), many-few)
			t.Logf("%d volumes: %.1f calls", there, total)
			require.LessOrEqual(t, total, 105.0, "%d volumes: %v", there, calls) // measured: 81 to 86
			require.Equal(t, 1, calls["move_mount"], "%d volumes", there)
		}
	})
}

// foreignMountsProgram brings pods up, and then binds and unmounts a directory outside of the
// node's root, repeatedly.
func foreignMountsProgram(p mounttest.Process) {
	present, err := strconv.Atoi(p.Args[1])
	require.NoError(p, err)
	mounts, err := strconv.Atoi(p.Args[2])
	require.NoError(p, err)
	n, err := newRealNode(p.Args[0])
	require.NoError(p, err)
	pods := make([]*v1.Pod, present)
	for i := range pods {
		pods[i] = n.pod(i, "shared")
	}
	stop := n.run(context.Background())
	require.NoError(p, n.up(context.Background(), pods...))
	foreign := filepath.Join(n.dir, "foreign")
	require.NoError(p, os.MkdirAll(foreign, 0o755))
	for range mounts {
		require.NoError(p, unix.Mount(foreign, foreign, "", unix.MS_BIND, ""))
		time.Sleep(2 * time.Millisecond) // the manager reads one event at a time
		require.NoError(p, unix.Unmount(foreign, 0))
		time.Sleep(2 * time.Millisecond)
	}
	require.NoError(p, stop())
}

// TestCallsOfForeignMount pins the system calls of a foreign mount and unmount: the kernel's
// events name the mount, so that the manager neither reads the mount table nor looks at its
// volumes.
//
//	mount umount2      of the test itself
//	poll read ...      the events, for each of the kernel's two watchers
//	statmount          the new mount, for each of them
func TestCallsOfForeignMount(t *testing.T) {
	const few = 10
	runOnPinnedKernel(t, func() {
		sizes := []int{200}
		switch {
		case testbed.Long():
			sizes = []int{500, 10_000}
		case testing.Short():
			sizes = []int{100}
		}
		for _, present := range sizes {
			many := few + present // so that the calls of the set-up, which vary, count little
			count := func(mounts int) map[string]int {
				return mounttest.CountCalls(t, mounttest.Program("foreign mounts", newDiskDir(t, 0), strconv.Itoa(present), strconv.Itoa(mounts)))
			}
			calls, total := callsPerItem(count(few), count(many), many-few)
			require.LessOrEqual(t, total, 20.0, "%d volumes: %v", present, calls) // measured: 12 to 16
		}
	})
}

// TestCallsOfRestart pins the system calls of a restart, per volume that is mounted already:
//
//	openat getdents64 ...   the directories of the pod, of its volumes and of the plugin: once
//	                        for empty directories, once for volumes
//	unlinkat                the plugin's directory, which is not empty
//	openat2 ... statx       the volume, and the path to it, before SetUp looks at the mount
//	openat2 statx statmount SetUp: the mount shows the volume, with its flags
//	openat2 statx close     which mount it is, before and after SetUp: no other has come
func TestCallsOfRestart(t *testing.T) {
	few, many := 100, 1_000
	if testing.Short() {
		few, many = 50, 350
	}
	runOnPinnedKernel(t, func() {
		count := func(volumes int) map[string]int {
			args := []string{newDiskDir(t, volumes), strconv.Itoa(volumes), "0"}
			require.NoError(t, mounttest.Program("pods", args...).Run())
			return mounttest.CountCalls(t, mounttest.Program("pods", args...))
		}
		calls, total := callsPerItem(count(few), count(many), many-few)
		require.LessOrEqual(t, total, 70.0, "%v", calls)
		require.Zero(t, calls["move_mount"]+calls["umount2"])
	})
}

// runOnPinnedKernel runs the test in a namespace, on a kernel whose calls are pinned. Older kernels need other calls.
func runOnPinnedKernel(t *testing.T, test func()) {
	t.Helper()
	if !mounttest.Namespace(t) {
		return
	}
	if !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs other calls")
	}
	test()
}

// callsPerItem returns the calls for one of n items, by name, and their sum.
func callsPerItem(before, after map[string]int, n int) (calls map[string]int, total float64) {
	calls = map[string]int{}
	for name := range after {
		if each := (after[name] - before[name] + n/2) / n; each != 0 {
			calls[name] = each
		}
		total += float64(after[name]-before[name]) / float64(n)
	}
	return calls, total
}

// newDiskDir returns a directory with count disks.
func newDiskDir(t *testing.T, count int) string {
	t.Helper()
	dir := newTmpfsDir(t)
	for i := range count {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "disks", diskName(i)), 0o755))
	}
	return dir
}
