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
	for _, info := range n.mounted() {
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
				assert.NoError(t, mounter.SetUp(n.patiently(), volume.MounterArgs{}))
			}
		})
	}
	pods.Wait()
	require.Len(t, n.shared(), 1)
	require.Len(t, n.mounted(), 11)
	for i := range 10 {
		n.requireShows(n.at(n.mounter(n.pv(path), fmt.Sprint(i)).GetPath()), path)
	}
	n.up(n.pv(path, "noexec"), "flag")
	require.Len(t, n.shared(), 1, "a flag is each pod's own")
	n.up(n.pv(path, "soft"), "option")
	require.Len(t, n.shared(), 2)
	n.up(n.pv(other), "other")
	require.Len(t, n.shared(), 3)

	n.down(n.pv(path), "flag")
	n.down(n.pv(path), "option")
	require.Len(t, n.shared(), 2)
	n.down(n.pv(other), "other")
	require.Len(t, n.shared(), 1)
	for i := range 9 {
		n.down(n.pv(path), fmt.Sprint(i))
	}
	require.Len(t, n.mounted(), 2)
	n.up(n.pv(path, "timeo=70"), "like") // one file system to the kernel: it goes with the last
	n.down(n.pv(path), "like")
	n.requireShows(n.at(n.mounter(n.pv(path), "9").GetPath()), path)
	n.down(n.pv(path), "9")
	require.Empty(t, n.mounted())
	left, err := os.ReadDir(n.ownDir() + "/mounts")
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestNFSLeftover: what a process that was killed left in the plugin's directory is
// taken down by the next, whatever that does first, and what is in use stays.
func TestNFSLeftover(t *testing.T) {
	c := nfs.Config{OneMountPerExport: true}
	n := newNode(t, c)
	path, other := n.exported("a"), n.exported("b")
	for name, next := range map[string]func(){
		"SetUp":    func() { n.up(n.pv(other), "2") },
		"TearDown": func() { n.down(n.pv(other), "3") },
	} {
		used := n.up(n.pv(other), "1")
		leftover := n.ownDir() + "/mounts/leftover"
		require.NoError(t, os.MkdirAll(leftover, 0o750))
		require.NoError(t, n.mounts.Mount(n.patiently(), mount.Request{
			Source: n.server.Source(path), Target: leftover, FSType: "nfs", Helper: mount.HelperNever,
		}))
		require.NoError(t, os.MkdirAll(n.ownDir()+"/mounts/empty", 0o750))
		n.on(filepath.Dir(n.host.Root()), c)
		// It is given a second only each time.
		require.Eventually(t, func() bool { next(); return len(n.shared()) == 1 }, time.Minute, time.Millisecond, name)
		n.requireGone(leftover)
		n.requireGone(n.ownDir() + "/mounts/empty")
		n.requireShows(n.at(used.Mountpoint), other)
		n.down(n.pv(other), "1")
		n.down(n.pv(other), "2")
		require.Empty(t, n.mounted(), name)
	}
}
