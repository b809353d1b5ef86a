package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// diskPod is a pod with a directory, and with a disk that all such pods share.
func diskPod(name string, version int) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {version: "%d"}}
spec:
  containers: [{name: c, volumeMounts: [{name: disk, mountPath: /a}, {name: scratch, mountPath: /b}]}]
  volumes:
  - {name: disk, persistentVolumeClaim: {claimName: disk}}
  - {name: scratch, emptyDir: {}}
`, name, version)
}

const diskRest = `
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {volumeName: disk}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec: {local: {path: $DISKS/disk, fsType: ext4}}
`

// TestCrashWithDisk is TestCrash for a blank disk, which is formatted for the first pod and
// mounted once for all pods. Nothing of the disk is left on the node without pods, and each
// pod reads the files of the pod before it.
func TestCrashWithDisk(t *testing.T) {
	t.Parallel()
	if !mounttest.RootNamespace(t) {
		return
	}
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		mounttest.SkipWithout(t, "ext4", err)
	}
	c := crash{newUser(t, 0), rand.New(rand.NewPCG(testbed.Seed(t), 0)), map[string]int{}, diskPod}
	c.disk("disk")
	c.put("rest.yaml", diskRest)
	kills := 10
	if testbed.Long() {
		kills = 100
	}
	for range kills / 2 {
		c.killOne()
	}
	c.put("steady.yaml", diskPod("steady", 1))
	c.once(2 * (len(c.pods) + 1))
	c.isWritten(func(name string) error { return os.WriteFile(name, []byte(sentinel), 0o600) })
	for range kills - kills/2 {
		c.killOne()
	}
	c.once(2 * (len(c.pods) + 1))
	require.Len(t, c.foreignMounts(), len(c.pods)+2, "one for all, and one for each")
	c.removePods()
	require.NoError(t, os.Remove(filepath.Join(c.dir, "manifests", "steady.yaml")))
	c.allGone()

	c.put("steady.yaml", diskPod("steady", 2))
	c.once(2)
	c.isWritten(func(name string) error {
		c.isWhole(name)
		return nil
	})
	require.NoError(t, os.Remove(filepath.Join(c.dir, "manifests", "steady.yaml")))
	c.allGone()
}

// allGone: when nothing is desired, nothing is there, nor a record of it.
func (c crash) allGone() {
	c.Helper()
	c.once(0)
	require.Empty(c, c.foreignMounts())
	for _, dir := range []string{"pods", "plugins/kubernetes.io/local-volume/mounts", "plugins/volumekit.io/manager/volumes"} {
		c.requireEmpty("root/" + dir)
	}
}

// disk makes a disk by that name among the disks.
func (c crash) disk(name string) {
	c.Helper()
	const size = 16 << 20
	disks := testbed.Tmpfs(c, filepath.Join(c.dir, "disks")) // on it there may be devices
	image := filepath.Join(disks, name+".image")
	testbed.Image(c, image, size)
	var device unix.Stat_t
	require.NoError(c, unix.Stat(testbed.Loop(c, image), &device))
	require.NoError(c, unix.Mknod(filepath.Join(disks, name), unix.S_IFBLK|0o600, int(device.Rdev)))
}

// isWritten has something done with a file on the disk that a pod has.
func (c crash) isWritten(do func(name string) error) {
	c.Helper()
	dirs, err := filepath.Glob(c.dir + "/root/pods/*/volumes/kubernetes.io~local-volume/disk")
	require.NoError(c, err)
	require.NotEmpty(c, dirs)
	require.NoError(c, do(filepath.Join(dirs[0], "sentinel")))
}
