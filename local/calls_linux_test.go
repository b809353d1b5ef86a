package local_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// volumeProgram sets a volume up and tears it down as often as its argument says: for the same
// pod, or for a new one each time.
func volumeProgram(p mounttest.Process) {
	ctx, rounds, cancel := testbed.Rounds(p, 1)
	defer cancel()
	n := nodeIn(p, testbed.Wrapped{Interface: mount.New(mount.Config{})}, p.Args[0])
	uid := types.UID("1")
	for i := range rounds {
		if p.Args[3] == "new" {
			uid = types.UID(strings.Join(append(p.Args[1:], strconv.Itoa(i)), "-"))
		}
		require.NoError(p, n.mounter(p, spec(n.disks+"/disk", "ro"), uid).SetUp(ctx, volume.MounterArgs{}))
		require.NoError(p, n.unmounter(p, uid).TearDown(ctx))
	}
}

// TestCallsOfVolume pins the system calls of a local volume that comes up and goes down
// again, with and without a context that ends:
//
//	openat2 statx           the directory above the pod's: a real path, whose mount is known
//	mkdirat                 the pod's directory is new: nothing is mounted there
//	openat2 statx           the volume: a real path, to a directory
//	read                    mounts that have come or gone: is anything mounted below the volume
//	open_tree_attr          the mount, detached, with its flags
//	statx                   it shows the volume
//	move_mount
//	statmount               it is attached to the mount of the directory above, with its flags
//	close close close
//
//	openat2 statx           the directory above the pod's: a real path
//	openat2 statx close     the pod's directory is a mount point, and of which file system
//	read                    mounts that have come or gone: does the file system live on
//	umount2
//	unlinkat                nothing is mounted there any more, and the directory is empty
//	close
//
// A new pod's directories are missing, with those of its plugins. Each costs one openat2 more,
// from the kernel's memory, then
//
//	mkdirat openat2 close
//
// The mounter is wrapped: its abilities are those of the kernel's mounter.
func TestCallsOfVolume(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs other calls")
	}
	const few, many = 10, 60
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := mount.New(mount.Config{})
	for _, at := range []string{dir + "/root", dir + "/disks"} {
		require.NoError(t, os.Mkdir(at, 0o755))
		require.NoError(t, m.Mount(t.Context(), mount.Request{Target: at, FSType: "tmpfs"}))
		defer func() { require.NoError(t, m.Unmount(t.Context(), at)) }()
	}
	for _, test := range []struct {
		context, pod  string
		total, mkdirs int
	}{
		{"ends", "same", 22, 1},
		{"stays", "same", 22, 1},
		{"ends", "new", 34, 4},
		{"stays", "new", 34, 4},
	} {
		count := func(rounds int) map[string]int {
			return mounttest.CountCalls(t, mounttest.Program("volume", dir, strconv.Itoa(rounds), test.context, test.pod))
		}
		calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
		assert.LessOrEqual(t, total, test.total, "%+v: %v", test, calls)
		assert.Equal(t, test.mkdirs, calls["mkdirat"], "%+v", test)
		for _, name := range []string{"open_tree_attr", "move_mount", "umount2", "unlinkat"} {
			assert.Equal(t, 1, calls[name], name)
		}
	}
}

// A stuckMounter is one on a disk that does not answer until a channel is closed.
type stuckMounter struct {
	*mounttest.Fake
	answer chan struct{}
}

func (s stuckMounter) MountNew(_ context.Context, _ mount.Request, dir mount.NewDirectory) (bool, error) {
	if dir.Wait == mount.NoWait {
		return false, mount.ErrWouldWait
	}
	<-s.answer
	return false, nil
}

// TestStuckSetUpKeepsOwners: while a SetUp is stuck, no other one changes the group of the directory.
func TestStuckSetUpKeepsOwners(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := stuckMounter{mounttest.NewFake(mount.Config{}), make(chan struct{})}
	n := nodeIn(t, m, dir)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, n.mounter(t, spec(n.disks+"/disk"), "1").SetUp(ctx, volume.MounterArgs{}), volume.ErrUncertain)
	ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = n.plugin.LockExclusively(ctx, n.disks+"/disk")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	close(m.answer)
	done, err := n.plugin.LockExclusively(t.Context(), n.disks+"/disk")
	require.NoError(t, err)
	done()
}

// TestSetUpWaitsForOwners checks that SetUp waits while another SetUp changes the group of the
// directory, and that a directory below a device link root is refused.
func TestSetUpWaitsForOwners(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	k := mount.New(mount.Config{})
	require.NoError(t, k.Mount(t.Context(), mount.Request{Target: dir, FSType: "tmpfs"})) // nothing waits in it
	defer func() { require.NoError(t, k.Unmount(t.Context(), dir)) }()
	n := nodeIn(t, k, dir)
	require.NoError(t, n.mounter(t, spec(n.disks+"/disk"), "1").SetUp(t.Context(), volume.MounterArgs{}))
	require.NoError(t, n.unmounter(t, "1").TearDown(t.Context())) // the directories above stay
	done, err := n.plugin.LockExclusively(t.Context(), n.disks+"/disk")
	require.NoError(t, err)
	m := n.mounter(t, spec(n.disks+"/disk"), "1")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, m.SetUp(ctx, volume.MounterArgs{}), volume.ErrTransient)
	require.NoDirExists(t, m.GetPath())
	done()
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))

	links := dir + "/links"
	require.NoError(t, os.MkdirAll(links+"/directory", 0o755))
	plugin := local.New(local.Config{Mounter: k, DeviceLinks: []string{links}})
	require.NoError(t, plugin.Init(t.Context(), n.host))
	mounter, err := plugin.NewMounter(spec(links+"/directory"), pod("1"))
	require.NoError(t, err)
	require.ErrorIs(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), local.ErrNotDevice)
	require.NoDirExists(t, mounter.GetPath())
}
