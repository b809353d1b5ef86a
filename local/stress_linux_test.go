package local_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/types"
)

// TestStress sets up, tears down, measures and recovers the same and different
// volumes from many goroutines, on every tier, some with contexts that end at any
// moment. Every third volume has no source.
func TestStress(t *testing.T) {
	testbed.Attacks(t)
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testStress(t, tier)
			}
		})
	}
}

func testStress(t *testing.T, tier mount.Tier) {
	duration := time.Second
	if testbed.Long() {
		duration = 15 * time.Second
	}
	seed := testbed.Seed(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging"})
	n := nodeIn(t, m, dir)
	require.NoError(t, os.WriteFile(n.disks+"/disk/precious", nil, 0o600))
	_, err = m.MountRefs(t.Context(), dir) // makes it listen for changes, with a descriptor
	require.NoError(t, err)
	check := mounttest.NoLeaks(t)

	ctx, cancel := context.WithTimeout(t.Context(), duration)
	defer cancel()
	var calls [len(stressVerbs)]atomic.Int64
	var ended atomic.Int64
	var workers sync.WaitGroup
	for i := range 32 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		workers.Go(func() {
			for ctx.Err() == nil {
				v := stressed{n, random.IntN(stressPods), random.IntN(stressVolumes)}
				verb := random.IntN(len(stressVerbs))
				call, cancel := context.WithCancel(t.Context())
				if random.IntN(8) == 0 {
					call, cancel = context.WithTimeout(t.Context(), time.Duration(random.IntN(400))*time.Microsecond)
				}
				calls[verb].Add(1)
				err := stressVerbs[verb].call(v, call, t)
				if !v.isExpected(call, err, stressVerbs[verb].also) {
					t.Errorf("%s, %v: %v", stressVerbs[verb].name, volume.KindOf(err), err)
				}
				if call.Err() != nil {
					ended.Add(1)
				}
				cancel()
			}
		})
	}
	workers.Wait()
	for i, verb := range stressVerbs {
		t.Logf("%s: %d times", verb.name, calls[i].Load())
	}
	t.Logf("of these %d with a context that ended", ended.Load())

	for i := range stressPods * stressVolumes {
		u := stressed{n, i / stressVolumes, i % stressVolumes}.unmounter(t)
		require.NoError(t, u.TearDown(t.Context()))
		require.NoError(t, util.RemoveEmptyParents(t.Context(), n.host.Root(), u.GetPath()))
	}
	check()
	require.Empty(t, mountsBelow(t, mount.New(mount.Config{}), dir))
	left, err := os.ReadDir(n.host.Root())
	require.NoError(t, err)
	require.Empty(t, left)
	require.FileExists(t, n.disks+"/disk/precious")
}

const stressPods, stressVolumes = 4, 6

// A stressed is one volume of one pod.
type stressed struct {
	*node
	pod, volume int
}

func (s stressed) missing() bool { return s.volume%3 == 2 }

func (s stressed) name() string { return fmt.Sprint("pv-", s.volume) }

func (s stressed) mounter(t *testing.T) volume.Mounter {
	path := s.disks + "/disk"
	if s.missing() {
		path = s.disks + "/missing"
	}
	v := spec(path, "ro")
	v.PersistentVolume.Name = s.name()
	return s.node.mounter(t, v, types.UID(fmt.Sprint(s.pod)))
}

func (s stressed) unmounter(t *testing.T) volume.Unmounter {
	u, err := s.plugin.NewUnmounter(s.name(), types.UID(fmt.Sprint(s.pod)))
	require.NoError(t, err)
	return u
}

// stressVerbs are the calls on a volume, and the errors that each may return because of
// concurrent calls on the same volume.
var stressVerbs = [...]struct {
	name string
	also []error
	call func(s stressed, ctx context.Context, t *testing.T) error
}{
	{"set up", nil, func(s stressed, ctx context.Context, t *testing.T) error {
		err := s.mounter(t).SetUp(ctx, volume.MounterArgs{})
		if s.missing() && err == nil {
			t.Error("a volume without a source is up")
		}
		if s.missing() && errors.Is(err, fs.ErrNotExist) && volume.KindOf(err) == volume.Transient {
			return nil
		}
		return err
	}},
	{"tear down", []error{unix.EBUSY}, func(s stressed, ctx context.Context, t *testing.T) error {
		return s.unmounter(t).TearDown(ctx)
	}},
	{"measure", []error{volume.ErrNotMounted, volume.ErrTransient}, func(s stressed, ctx context.Context, t *testing.T) error {
		_, err := s.unmounter(t).GetMetrics(ctx)
		return err
	}},
	{"recover", []error{volume.ErrNotMounted, volume.ErrUncertain}, func(s stressed, ctx context.Context, t *testing.T) error {
		found, err := s.plugin.ConstructVolumeSpec(ctx, s.name(), s.unmounter(t).GetPath())
		if err == nil && found.Spec.PersistentVolume.Spec.Local.Path != s.disks+"/disk" {
			t.Errorf("recovered %s", found.Spec.PersistentVolume.Spec.Local.Path)
		}
		return err
	}},
}

// isExpected reports whether the error is an expected one, with the right kind.
func (s stressed) isExpected(ctx context.Context, err error, also []error) bool {
	switch kind := volume.KindOf(err); {
	case err == nil:
		return true
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return kind == volume.Transient || kind == volume.Uncertain
	case errors.Is(err, unix.EBUSY):
		return slices.Contains(also, error(unix.EBUSY)) && kind == volume.Transient
	}
	return slices.ContainsFunc(also, func(known error) bool { return errors.Is(err, known) })
}

// TestNeverWritable watches the target of a read-only volume, while it is set up
// and torn down, for a mount that is not read-only.
func TestNeverWritable(t *testing.T) {
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testNeverWritable(t, tier)
			}
		})
	}
}

func testNeverWritable(t *testing.T, tier mount.Tier) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := killNode(t, dir, tier)
	mounter, unmounter := n.mounter(t, spec(n.disks+"/disk", "ro"), "1"), n.unmounter(t, "1")
	// A write that reaches the disk went through a mount that was not read-only. A write to
	// the directory below the mount is harmless.
	stop := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				_ = os.WriteFile(mounter.GetPath()+"/written", nil, 0o600)
				_ = os.Remove(mounter.GetPath() + "/written")
			}
			if _, err := os.Lstat(n.disks + "/disk/written"); err == nil {
				t.Error("a write went through a read-only volume")
				return
			}
		}
	})
	rounds := 100
	switch {
	case testbed.Long():
		rounds = 1000
	case testing.Short():
		rounds = 50
	}
	for range rounds {
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		require.Eventually(t, func() bool { return unmounter.TearDown(t.Context()) == nil },
			10*time.Second, time.Microsecond, "the watcher's file is in the way only for a moment")
	}
	close(stop)
	watcher.Wait()
}
