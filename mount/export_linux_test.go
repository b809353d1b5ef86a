package mount

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/table"
	"golang.org/x/sys/unix"
)

// inNamespace and skipWithout are helpers of package mounttest, which imports this package: the
// tests of package mount_test set them.
var (
	inNamespace func(t *testing.T) bool
	skipWithout func(t testing.TB, thing string, why any)
)

// SetHelpers sets inNamespace and skipWithout.
func SetHelpers(namespace func(t *testing.T) bool, skip func(t testing.TB, thing string, why any)) {
	inNamespace, skipWithout = namespace, skip
}

// WithoutMountRoot makes the package detect mount points as on kernels before 5.8.
func WithoutMountRoot(without bool) { kernel.WithoutMountRoot = without }

// WithoutCachedLookups makes the package look up each component of a path, as on kernels
// before 5.12.
func WithoutCachedLookups() { kernel.CachedLookupError = unix.EINVAL }

// WithoutUniqueIDs makes the package prove that a clone has no submounts as on kernels before
// 6.8 with a long mount table, until restore is called.
func (m *Mounter) WithoutUniqueIDs() (restore func()) {
	building.WithoutUniqueIDs = true
	m.maker.TableLength.Store(building.AnchorThreshold)
	return func() { building.WithoutUniqueIDs = false }
}

// Feeds names the feeds of the mount table's cache; "none" is no feed.
var Feeds = map[string][]table.OpenFeed{"events": {table.OpenEvents}, "poll": {table.OpenPoll}, "none": {}}

// UseFeed makes the mounter use one of Feeds alone.
func (m *Mounter) UseFeed(name string) { m.cache.Feeds = Feeds[name] }

// HasMountEvents returns an error if the kernel reports no mount events. The kernel limits
// the listeners of a user, and other tests use some: HasMountEvents waits up to a minute
// for a free one.
func HasMountEvents() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		f, err := table.OpenEvents("")
		if err == nil {
			f.Close()
			return nil
		}
		if !errors.Is(err, unix.EMFILE) || time.Now().After(deadline) {
			return err
		}
		runtime.GC() // closes unreferenced files
	}
}

// WithoutTable makes reading the mount table fail until restore is called.
func WithoutTable() (restore func()) {
	path := mountinfo.Path
	mountinfo.Path = "/proc/self/no-such-file"
	return func() { mountinfo.Path = path }
}

// Tier returns the tier that the mounter mounts with.
func (m *Mounter) Tier() Tier {
	tier, _ := m.builder.SelectTier()
	return Tier(tier)
}

// HasStatmount reports whether statmount(2) is available, which returns the parent of a
// mount.
func HasStatmount() bool {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer kernel.Close(fd)
	_, err = mountinfo.StatMount(fd)
	return err == nil
}

// SetAnchorTime sets how long an unused anchor is kept.
func SetAnchorTime(d time.Duration) { building.AnchorTime = d }

// Anchors returns how many mounts have an anchor.
func (m *Mounter) Anchors() int { return m.builder.Anchors.Len() }

// HasMountEvents reports whether the mounter receives mount events, and the kernel can clone a
// detached clone: the requirements of anchors.
func (m *Mounter) HasMountEvents() bool {
	root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer kernel.Close(root)
	id, err := kernel.UniqueMountID(root)
	if err != nil {
		return false
	}
	_, _, err = m.cache.CountAttached(context.Background(), id, func() (string, error) { return "/", nil })
	return err == nil && building.KernelTier() >= building.TierTreeAttr
}
