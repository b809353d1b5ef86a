package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// bindProgram binds and unmounts; an argument sets the number of rounds.
func bindProgram(p mounttest.Process) {
	source, target := p.Args[0], p.Args[1]
	ctx, rounds, cancel := testbed.Rounds(p, 2)
	defer cancel()
	m := mount.New(mount.Config{})
	for range rounds {
		require.NoError(p, m.Mount(ctx, mount.Request{Source: source, Target: target}))
		require.NoError(p, m.Unmount(ctx, target))
	}
}

// TestCallsOfBindAndUnmount pins the system calls of a bind mount and its unmount, with
// and without a context that ends:
//
//	openat2 statx           the target: a real path, whose top mount is known
//	openat2 statx           the source: a real path, of the same type as the target
//	read                    mount events: whether the source has submounts
//	open_tree_attr          the mount, detached, with its flags
//	statx                   the mount shows the source
//	move_mount
//	statmount               the mount is attached to the target's mount, with its flags
//	close close close
//
//	openat2 statx           the directory above the target: a real path
//	openat2 statx close     the target is a mount point, and of which file system
//	read                    mount events: whether the file system has another mount
//	umount2
//	statmount               the mount has left the table
//	close
func TestCallsOfBindAndUnmount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs other calls")
	}
	const few, many = 10, 60
	dir := mkdirs(t, "disk", "pods")
	m := mount.New(mount.Config{})
	for at, name := range map[string]string{"disk": "source", "pods": "target"} {
		require.NoError(t, m.Mount(t.Context(), mount.Request{Target: filepath.Join(dir, at), FSType: "tmpfs"}))
		require.NoError(t, os.Mkdir(filepath.Join(dir, at, name), 0o755))
		defer func() { require.NoError(t, m.Unmount(t.Context(), filepath.Join(dir, at))) }()
	}
	for _, context := range []string{"ends", "stays"} {
		count := func(rounds int) map[string]int {
			return mounttest.CountCalls(t, mounttest.Program("bind", dir+"/disk/source", filepath.Join(dir, "pods/target"), strconv.Itoa(rounds), context))
		}
		calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
		assert.LessOrEqual(t, total, 21, "context %s: %v", context, calls)
		for _, name := range []string{"open_tree_attr", "move_mount", "umount2"} {
			assert.Equal(t, 1, calls[name], name)
		}
	}
}

// isMountPointProgram calls IsMountPoint for a path; an argument sets the number of calls.
func isMountPointProgram(p mounttest.Process) {
	ctx, rounds, cancel := testbed.Rounds(p, 1)
	defer cancel()
	m := mount.New(mount.Config{})
	for range rounds {
		_, err := m.IsMountPoint(ctx, p.Args[0])
		require.NoError(p, err)
	}
}

// TestCallsOfIsMountPoint pins the system calls of IsMountPoint: statx, and, with a context that
// can end, the lookup before it, which does not wait for a file system.
func TestCallsOfIsMountPoint(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs other calls")
	}
	const few, many = 10, 60
	dir := mkdirs(t, "target")
	for context, want := range map[string]int{"stays": 1, "ends": 3} {
		count := func(rounds int) map[string]int {
			return mounttest.CountCalls(t, mounttest.Program("is mount point", dir+"/target", strconv.Itoa(rounds), context))
		}
		calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
		require.Equal(t, want, total, "context %s: %v", context, calls)
		require.Equal(t, 1, calls["statx"])
	}
}

// refsProgram calls MountRefs for a directory; an argument sets the number of calls.
func refsProgram(p mounttest.Process) {
	rounds, err := strconv.Atoi(p.Args[1])
	require.NoError(p, err)
	m := mount.New(mount.Config{})
	for range rounds {
		refs, err := m.MountRefs(context.Background(), p.Args[0])
		require.NoError(p, err)
		require.Len(p, refs, 1)
	}
}

// TestCallsOfRefs: MountRefs reads only those mounts of a file system with hundreds of mounts
// that show the directory.
func TestCallsOfRefs(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs other calls")
	}
	const mounts, few, many = 300, 2, 12
	dir := mkdirs(t, "disk")
	m := mount.New(mount.Config{})
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: dir + "/disk", FSType: "tmpfs"}))
	defer func() { require.NoError(t, m.UnmountTree(t.Context(), dir+"/disk")) }()
	for i := range mounts {
		source, target := fmt.Sprint(dir, "/disk/source", i), fmt.Sprint(dir, "/disk/target", i)
		require.NoError(t, errors.Join(os.Mkdir(source, 0o755), os.Mkdir(target, 0o755)))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target}))
	}
	count := func(rounds int) map[string]int {
		return mounttest.CountCalls(t, mounttest.Program("refs", dir+"/disk/source7", strconv.Itoa(rounds)))
	}
	calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
	require.LessOrEqual(t, total, 24, "%v", calls)
}

// TestRefsOfManyMounts: MountRefs finds all of 300 bind mounts of a directory.
func TestRefsOfManyMounts(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	const mounts = 300
	dir := mkdirs(t, "disk")
	m := mount.New(mount.Config{})
	require.NoError(t, m.Mount(t.Context(), mount.Request{Target: dir + "/disk", FSType: "tmpfs"}))
	defer func() { require.NoError(t, m.UnmountTree(t.Context(), dir+"/disk")) }()
	require.NoError(t, os.Mkdir(dir+"/disk/source", 0o755))
	var want []string
	for i := range mounts {
		target := fmt.Sprint(dir, "/disk/target", i)
		require.NoError(t, os.Mkdir(target, 0o755))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/disk/source", Target: target}))
		want = append(want, target)
	}
	refs, err := m.MountRefs(t.Context(), dir+"/disk/source")
	require.NoError(t, err)
	require.ElementsMatch(t, want, refs)
}
