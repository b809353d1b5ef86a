package manager_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
)

// TestPodsAmongForeignMounts: pods with three volumes each, of all kinds, are set up and torn down with real
// mounts in a mount namespace full of foreign mounts. The foreign mounts stay as they are, and
// nothing of the pods is left: no mount, directory, file descriptor or goroutine.
func TestPodsAmongForeignMounts(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	pods, foreign := 100, 2_000
	switch {
	case os.Getenv("VOLUMEKIT_LONG") != "":
		pods, foreign = 500, 10_000
	case testing.Short():
		pods, foreign = 30, 500
	}
	dir := newTmpfsDir(t)
	n, err := newRealNode(dir)
	require.NoError(t, err)
	n.addForeignMounts(t, foreign)
	n.warmUp(t)
	before := n.resources(t)

	stop := n.run(t.Context())
	all := mixedPods(n, pods)
	require.NoError(t, n.up(t.Context(), all...))
	n.requireUp(t, all)
	require.Equal(t, before.foreign, n.resources(t).foreign)
	require.NoError(t, n.down(t.Context(), all...))
	require.NoError(t, stop())

	left, err := os.ReadDir(filepath.Join(dir, "root", "pods"))
	require.True(t, err == nil || errors.Is(err, os.ErrNotExist), err)
	require.Empty(t, left)
	after := n.resources(t)
	require.Equal(t, before.foreign, after.foreign)
	require.Equal(t, before.ours, after.ours)
	require.Eventually(t, func() bool { return len(n.resources(t).files) <= len(before.files) }, time.Minute, 10*time.Millisecond,
		"open: %v; before: %v", after.files, before.files)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before.goroutines+1 }, time.Minute, 10*time.Millisecond)
	text, err := os.ReadFile(filepath.Join(dir, "disks", "shared", "sentinel"))
	require.NoError(t, err)
	require.Equal(t, "whole", string(text))
}

// addForeignMounts creates foreign mounts, and a file on the shared disk that must survive.
func (n *realNode) addForeignMounts(t *testing.T, count int) {
	t.Helper()
	dir := filepath.Join(n.dir, "foreign")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: "foreign", Target: dir, FSType: "tmpfs"}))
	for i := range count {
		target := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(target, 0o755))
		require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: filepath.Join(dir, "0"), Target: target}))
	}
	require.NoError(t, os.WriteFile(filepath.Join(n.dir, "disks", "shared", "sentinel"), []byte("whole"), 0o600))
}

// warmUp sets pods up and tears them down once, so that resources that are allocated once and
// kept exist before the first count.
func (n *realNode) warmUp(t *testing.T) {
	t.Helper()
	stop := n.run(t.Context())
	pods := mixedPods(n, 5)
	require.NoError(t, n.up(t.Context(), pods...))
	require.NoError(t, n.down(t.Context(), pods...))
	require.NoError(t, stop())
}

// mixedPods returns pods with a shared disk and two other volumes, whose kinds alternate.
func mixedPods(n *realNode, count int) (pods []*v1.Pod) {
	turns := [][]string{{"memory", "words"}, {"scratch", "seen"}, {"words", "seen"}, {"memory", "scratch"}, {"seen", "memory"}}
	for i := range count {
		pods = append(pods, n.pod(i, append(slices.Clone(turns[i%len(turns)]), "shared")...))
	}
	return pods
}

// requireUp requires that all volumes of the pods are up, with their files visible.
func (n *realNode) requireUp(t *testing.T, pods []*v1.Pod) {
	t.Helper()
	want := 0
	for _, pod := range pods {
		mounted := n.manager.GetMountedVolumesForPod(pod.UID)
		require.Len(t, mounted, 3)
		for name, file := range map[string]string{"shared": "sentinel", "words": "hello"} {
			if v, ok := mounted[name]; ok {
				require.FileExists(t, filepath.Join(v.Path, file))
			}
		}
		for _, v := range pod.Spec.Volumes {
			if isMount := v.Name == "memory" || v.Name == "seen" || v.Name == "shared"; isMount {
				want++
			}
			require.DirExists(t, mounted[v.Name].Path)
		}
	}
	require.Len(t, n.resources(t).ofPods, want)
}

// resources are the mounts of the mount namespace, and the resources of the process.
type resources struct {
	foreign, ours, ofPods []string // mounts
	files                 []string // descriptors
	goroutines            int
}

func (n *realNode) resources(t *testing.T) (all resources) {
	t.Helper()
	table, err := n.kernel.List(t.Context())
	require.NoError(t, err)
	for _, info := range table {
		line := fmt.Sprint(info.ID, " ", info.Mountpoint, " ", info.Root, " ", info.Flags)
		switch {
		case strings.HasPrefix(info.Mountpoint, n.dir+"/root/pods/"):
			all.ofPods = append(all.ofPods, line)
		case strings.HasPrefix(info.Mountpoint, n.dir+"/foreign"):
			all.foreign = append(all.foreign, line)
		default:
			all.ours = append(all.ours, line)
		}
	}
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range entries {
		to, _ := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		all.files = append(all.files, to)
	}
	all.goroutines = runtime.NumGoroutine()
	return all
}
