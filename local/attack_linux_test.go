package local_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// TestSwappingAttackers lets three attackers exchange directories on the way to
// the source and to the target for symbolic links, as fast as they can, while a
// volume is set up and torn down. Nothing may happen where the links lead. A
// control that checks the paths and then uses them does escape.
func TestSwappingAttackers(t *testing.T) {
	testbed.Attacks(t)
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testAttack(t, tier)
			}
		})
	}
}

// A battlefield is a node with the targets of the attackers.
type battlefield struct {
	*node
	dir    string
	victim string // a mount point that is not the volume's
}

func newBattlefield(t *testing.T, tier mount.Tier) *battlefield {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := mount.New(mount.Config{})
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: dir, FSType: "tmpfs"}))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	b := &battlefield{dir: dir, victim: dir + "/outside/kubernetes.io~local-volume/pv"}
	for _, d := range []string{"/disks/disk/sub", "/secret", "/nothing", "/outside/kubernetes.io~local-volume/pv"} {
		require.NoError(t, os.MkdirAll(dir+d, 0o755))
	}
	require.NoError(t, os.WriteFile(dir+"/secret/key", nil, 0o600))
	b.node = killNode(t, dir, tier)
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: dir + "/secret", Target: b.victim}))
	return b
}

// attack exchanges directories for links until the returned function is called,
// which leaves the directories in their places.
func (b *battlefield) attack(t *testing.T) (end func()) {
	volumes := filepath.Dir(filepath.Dir(b.unmounter(t, "1").GetPath()))
	require.NoError(t, os.MkdirAll(volumes+"/kubernetes.io~local-volume", 0o755))
	stop := make(chan struct{})
	var attackers sync.WaitGroup
	for link, leads := range map[string][2]string{
		b.dir + "/link1": {b.disks + "/disk/sub", b.dir + "/secret"},
		b.dir + "/link2": {volumes, b.dir + "/outside"},
		b.dir + "/link3": {filepath.Dir(volumes), b.dir + "/nothing"},
	} {
		require.NoError(t, os.Symlink(leads[1], link))
		attackers.Go(func() {
			swap(link, leads[0], stop)
			_ = os.Remove(link)
		})
	}
	return func() { close(stop); attackers.Wait() }
}

// swap exchanges a link and a directory, an even number of times unless the last
// is impossible: the control mounts in the strangest places.
func swap(link, dir string, stop chan struct{}) {
	stopped := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	swapped := false
	for tries := 0; tries < 1000 && (swapped || !stopped()); tries++ {
		if unix.Renameat2(unix.AT_FDCWD, link, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE) == nil {
			swapped = !swapped
		}
		if !stopped() {
			tries = 0
		} else {
			time.Sleep(time.Millisecond) // another attacker's link may be in the way
		}
	}
}

// describeEscape returns a description of the first effect outside the volume, or "".
func (b *battlefield) describeEscape(t *testing.T) string {
	mounts := mountsBelow(t, mount.New(mount.Config{}), b.dir)
	for _, info := range mounts {
		shows := filepath.Base(info.Root)
		switch {
		case info.Mountpoint == b.dir:
		case shows == "secret" && info.Mountpoint != b.victim:
			return "the secret is mounted at " + info.Mountpoint
		case shows == "sub" && filepath.Dir(info.Mountpoint) == filepath.Dir(b.victim):
			return "the volume is mounted outside"
		}
	}
	if is, err := mount.New(mount.Config{}).IsMountPoint(t.Context(), b.victim); err != nil || !is {
		return "the victim was unmounted"
	}
	if made, err := os.ReadDir(b.dir + "/nothing"); err != nil || len(made) > 0 {
		return "a directory was made outside"
	}
	return ""
}

func testAttack(t *testing.T, tier mount.Tier) {
	rounds, least := 1000, 1
	if testing.Short() {
		rounds = 200
	}
	if testbed.Long() {
		rounds, least = 10_000, 10
	}
	if tiers := mount.Tiers(); testbed.Long() && tier == tiers[len(tiers)-1] { // the one that this test mounts with
		rounds, least = 100_000, 100
	}
	t.Run("control", func(t *testing.T) {
		b := newBattlefield(t, tier)
		end := b.attack(t)
		defer end()
		for range 1_000_000 {
			if checkThenUse(b.disks+"/disk/sub", b.unmounter(t, "1").GetPath()); b.describeEscape(t) != "" {
				t.Logf("the control lets the attackers out: %s", b.describeEscape(t))
				return
			}
		}
		t.Error("the attackers are too slow to show anything")
	})
	b := newBattlefield(t, tier)
	end := b.attack(t)
	mounter, unmounter := b.mounter(t, spec(b.disks+"/disk/sub", "ro"), "1"), b.unmounter(t, "1")
	var up, down, i int
	for ; i < rounds || (up < least || down == 0) && i < 100*rounds; i++ {
		if mounter.SetUp(t.Context(), volume.MounterArgs{}) == nil {
			up++
			require.Empty(t, b.describeEscape(t), "round %d, set up", i)
		}
		if unmounter.TearDown(t.Context()) == nil {
			down++
		}
		if i%16 == 0 {
			require.Empty(t, b.describeEscape(t), "round %d, torn down", i)
		}
	}
	end()
	require.Empty(t, b.describeEscape(t))
	t.Logf("of %d rounds %d set-ups and %d tear-downs went through", i, up, down)
	require.GreaterOrEqual(t, up, least, "too few set-ups to say anything")
	require.Positive(t, down)
	require.NoError(t, unmounter.TearDown(t.Context()))
	require.NoError(t, util.RemoveEmptyParents(t.Context(), b.host.Root(), unmounter.GetPath()))
	require.Len(t, mountsBelow(t, mount.New(mount.Config{}), b.dir), 2, "the tmpfs and the victim")
}

// checkThenUse imitates a program that uses a path after checking it. The pause between both gives
// the attacker a turn on a machine with one processor.
func checkThenUse(source, target string) {
	if isClean(source) && isClean(filepath.Dir(target)) {
		time.Sleep(time.Microsecond)
		_ = os.MkdirAll(target, 0o750)
		_ = unix.Mount(source, target, "", unix.MS_BIND, "")
	}
	if isClean(target) {
		time.Sleep(time.Microsecond)
		_ = unix.Unmount(target, unix.UMOUNT_NOFOLLOW)
		_ = os.Remove(target)
	}
}

func isClean(p string) bool {
	resolved, err := filepath.EvalSymlinks(p)
	return err == nil && resolved == p
}
