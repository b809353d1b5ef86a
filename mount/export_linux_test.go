package mount

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inNamespace is for the tests inside this package, which the helper that makes
// namespaces imports: those outside set it.
var inNamespace func(t *testing.T) bool

// skipWithout is for them, too.
var skipWithout func(t testing.TB, thing string, why any)

// SetHelpers sets inNamespace and skipWithout.
func SetHelpers(namespace func(t *testing.T) bool, skip func(t testing.TB, thing string, why any)) {
	inNamespace, skipWithout = namespace, skip
}

// WithoutMountRoot makes the package ask as it does on kernels before 5.8.
func WithoutMountRoot(without bool) { withoutMountRoot = without }

// WithoutCachedLookups makes the package ask for each component of a path, as it
// does on kernels before 5.12.
func WithoutCachedLookups(without bool) { withoutCachedLookups = without }

// WithoutNumbers makes the package tell that a clone is alone as it does on kernels
// before 6.8, where the table is long, until restored.
func (m *Mounter) WithoutNumbers() (restore func()) {
	withoutNumbers = true
	m.lines.Store(crowd)
	return func() { withoutNumbers = false }
}

// Feeds names the ways to know of changes of the mount table. "none" is none.
var Feeds = map[string][]wayToKnow{"events": {openEvents}, "poll": {openPoll}, "none": {}}

// UseFeed makes the mounter use one alone.
func (m *Mounter) UseFeed(name string) { m.cache.ways = Feeds[name] }

// HasMountEvents returns an error where the kernel does not tell of mounts. There are
// so and so many listeners for each user, other tests' among them: it waits for one.
func HasMountEvents() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		f, err := openEvents()
		if err == nil {
			f.close()
			return nil
		}
		if !errors.Is(err, unix.EMFILE) || time.Now().After(deadline) {
			return err
		}
		runtime.GC() // closes what nobody has closed
	}
}

// WithoutTable makes reading the mount table fail, until restored.
func WithoutTable() (restore func()) {
	path := tablePath
	tablePath = "/proc/self/no-such-file"
	return func() { tablePath = path }
}

// Tier returns the tier that the mounter mounts with.
func (m *Mounter) Tier() Tier {
	tier, _ := m.tier()
	return tier
}

// HasStatmount reports whether the kernel can say what a mount is on.
func HasStatmount() bool {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer closeFD(fd)
	_, err = statMount(fd)
	return err == nil
}

// KeepAnchors sets how long an unused anchor is kept.
func KeepAnchors(d time.Duration) { anchored = d }

// Anchors returns how many mounts have an anchor.
func (m *Mounter) Anchors() int {
	m.anchors.mu.Lock()
	defer m.anchors.mu.Unlock()
	return len(m.anchors.mounts)
}

// HasEvents reports whether the mounter is told of each mount, and can clone clones.
func (m *Mounter) HasEvents() bool {
	unlock, err := m.cache.lock(context.Background())
	if err != nil {
		return false
	}
	defer unlock()
	_, told := m.cache.feed.(*eventFeed)
	return told && kernelTier() >= TierTreeAttr
}
