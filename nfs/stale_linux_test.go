package nfs_test

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestNFSStale: a volume whose directory was removed on the server and made again
// is mounted anew by SetUp, for each of its pods; one whose directory is gone comes
// down.
func TestNFSStale(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			path := n.exported("a")
			pods := []string{"1", "2", "3"}
			for _, pod := range pods {
				n.setUp(n.pv(path), pod)
			}
			require.NoError(t, os.RemoveAll(path))
			n.exported("a")
			for _, pod := range pods[:2] {
				// The server drops removed directories from its cache with a delay.
				at := n.mounter(n.pv(path), pod).GetPath()
				require.Eventually(t, func() bool {
					_, err := os.ReadDir(at)
					return errors.Is(err, unix.ESTALE) && mount.IsCorrupted(err)
				}, time.Minute, time.Millisecond)
				n.requireShows(n.setUp(n.pv(path), pod), path)
				n.requireShows(n.setUp(n.pv(path), pod), path)
			}
			n.tearDown(n.pv(path), "3") // stale as it is
			n.tearDown(n.pv(path), "2")
			n.requireShows(n.setUp(n.pv(path), "1"), path)

			require.NoError(t, os.RemoveAll(path))
			require.Eventually(t, func() bool {
				err := n.mounter(n.pv(path), "1").SetUp(n.patientContext(), volume.MounterArgs{})
				return errors.Is(err, unix.ENOENT) && volume.KindOf(err) == volume.Transient
			}, time.Minute, time.Millisecond)
			n.tearDown(n.pv(path), "1")
			require.Empty(t, n.mountsBelowRoot())
		})
	}
}

// TestNFSConcurrentVolumes: many volumes go up and down at the same time, and nothing is left.
func TestNFSConcurrentVolumes(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			volumes := 200
			if testing.Short() {
				volumes = 50
			}
			_, err := n.mounts.MountRefs(t.Context(), n.host.Root()) // begins to listen for changes
			require.NoError(t, err)
			n.setUp(n.pv(n.exported("first")), "first")
			n.tearDown(n.pv(n.exported("first")), "first")
			noLeaks := mounttest.NoLeaks(t)
			n.forMany(volumes, func(spec *volume.Spec, uid string) error {
				mounter, err := n.plugin.NewMounter(spec, podOf(uid))
				if err != nil {
					return err
				}
				return mounter.SetUp(n.patientContext(), volume.MounterArgs{})
			})
			require.GreaterOrEqual(t, len(n.mountsBelowRoot()), volumes)
			n.forMany(volumes, func(spec *volume.Spec, uid string) error {
				unmounter, err := n.plugin.NewUnmounter(spec.Name(), podOf(uid).UID)
				if err != nil {
					return err
				}
				return unmounter.TearDown(n.patientContext())
			})
			require.Empty(t, n.mountsBelowRoot())
			noLeaks()
		})
	}
}

// forMany calls work for many volumes concurrently, of which every two have the same export.
func (n *node) forMany(volumes int, work func(spec *volume.Spec, uid string) error) {
	n.Helper()
	var all sync.WaitGroup
	for i := range volumes {
		spec := n.pv(n.exported(fmt.Sprint(i / 2)))
		all.Go(func() { assert.NoError(n, work(spec, fmt.Sprint(i))) })
	}
	all.Wait()
}

// TestNFSGoneDirectory: a volume whose directory was removed, on the server or by this machine, comes down: each lookup of
// the mounted path fails then. If the directory is made again SetUp mounts it.
func TestNFSGoneDirectory(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		for _, here := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/here=%t", name, here), func(t *testing.T) {
				n := newNode(t, c)
				pv := func(path string) *volume.Spec { return n.pv(path, "noac") } // the client asks at once
				path := n.exported("a")
				for _, pod := range []string{"1", "2", "3"} {
					n.setUp(pv(path), pod)
				}
				removed := path
				if here {
					removed = n.setUp(pv(n.export), "parent").Mountpoint + "/a"
				}
				at := n.mounter(pv(path), "1").GetPath()
				require.NoError(t, os.RemoveAll(removed))
				require.Eventually(t, func() bool {
					_, err := os.Lstat(at)
					return errors.Is(err, unix.ESTALE)
				}, time.Minute, time.Millisecond)
				n.tearDown(pv(path), "1")
				require.ErrorIs(t, n.mounter(pv(path), "2").SetUp(n.patientContext(), volume.MounterArgs{}), unix.ENOENT)
				n.exported("a")
				n.requireShows(n.setUp(pv(path), "2"), path)
				n.requireShows(n.setUp(pv(path), "3"), path)
				for _, pod := range []string{"2", "3"} {
					n.tearDown(pv(path), pod)
				}
				if here {
					n.tearDown(pv(n.export), "parent")
				}
				require.Empty(t, n.mountsBelowRoot())
			})
		}
	}
}
