package nfs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
)

// shared returns the mounts of exports that pods share.
func (n *node) shared() mount.Table {
	n.Helper()
	var exports mount.Table
	for _, info := range n.mountsBelowRoot() {
		if filepath.Dir(info.Mountpoint) == n.ownDir()+"/mounts" {
			exports = append(exports, info)
		}
	}
	return exports
}

// TestNFSOneMount: pods with the same export share a mount of it, which goes with
// the last of them; other options take another mount.
func TestNFSOneMount(t *testing.T) {
	n := newNode(t, nfs.Config{OneMountPerExport: true})
	path, other := n.exported("a"), n.exported("b")
	var pods sync.WaitGroup
	for i := range 10 {
		pods.Go(func() {
			mounter, err := n.plugin.NewMounter(n.pv(path), podOf(fmt.Sprint(i)))
			if assert.NoError(t, err) {
				assert.NoError(t, mounter.SetUp(n.patientContext(), volume.MounterArgs{}))
			}
		})
	}
	pods.Wait()
	require.Len(t, n.shared(), 1)
	require.Len(t, n.mountsBelowRoot(), 11)
	for i := range 10 {
		n.requireShows(n.mountAt(n.mounter(n.pv(path), fmt.Sprint(i)).GetPath()), path)
	}
	n.setUp(n.pv(path, "noexec"), "flag")
	require.Len(t, n.shared(), 1, "a flag is each pod's own")
	n.setUp(n.pv(path, "soft"), "option")
	require.Len(t, n.shared(), 2)
	n.setUp(n.pv(other), "other")
	require.Len(t, n.shared(), 3)

	n.tearDown(n.pv(path), "flag")
	n.tearDown(n.pv(path), "option")
	require.Len(t, n.shared(), 2)
	n.tearDown(n.pv(other), "other")
	require.Len(t, n.shared(), 1)
	for i := range 9 {
		n.tearDown(n.pv(path), fmt.Sprint(i))
	}
	require.Len(t, n.mountsBelowRoot(), 2)
	n.setUp(n.pv(path, "timeo=70"), "like") // one file system to the kernel: it goes with the last
	n.tearDown(n.pv(path), "like")
	n.requireShows(n.mountAt(n.mounter(n.pv(path), "9").GetPath()), path)
	n.tearDown(n.pv(path), "9")
	require.Empty(t, n.mountsBelowRoot())
	left, err := os.ReadDir(n.ownDir() + "/mounts")
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestNFSLeftover checks that the first call of a new process takes down the mounts that a
// killed process left in the plugin's directory, and keeps those in use.
func TestNFSLeftover(t *testing.T) {
	c := nfs.Config{OneMountPerExport: true}
	n := newNode(t, c)
	path, other := n.exported("a"), n.exported("b")
	for name, next := range map[string]func(){
		"SetUp":    func() { n.setUp(n.pv(other), "2") },
		"TearDown": func() { n.tearDown(n.pv(other), "3") },
	} {
		used := n.setUp(n.pv(other), "1")
		leftover := n.ownDir() + "/mounts/leftover"
		require.NoError(t, os.MkdirAll(leftover, 0o750))
		require.NoError(t, n.mounts.Mount(n.patientContext(), mount.Request{
			Source: n.server.Source(path), Target: leftover, FSType: "nfs", Helper: mount.HelperNever,
		}))
		require.NoError(t, os.MkdirAll(n.ownDir()+"/mounts/empty", 0o750))
		n.on(filepath.Dir(n.host.Root()), c)
		// It is given a second only each time.
		require.Eventually(t, func() bool { next(); return len(n.shared()) == 1 }, time.Minute, time.Millisecond, name)
		n.requireGone(leftover)
		n.requireGone(n.ownDir() + "/mounts/empty")
		n.requireShows(n.mountAt(used.Mountpoint), other)
		n.tearDown(n.pv(other), "1")
		n.tearDown(n.pv(other), "2")
		require.Empty(t, n.mountsBelowRoot(), name)
	}
}
