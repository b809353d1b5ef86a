package table

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Helpers of packages mounttest and testbed, which import this package: the tests of package table_test set them.
var (
	inNamespace func(t *testing.T) bool
	skipWithout func(t testing.TB, thing string, why any)
	attacks     func(t testing.TB)
	seedOf      func(t testing.TB) uint64
)

// SetHelpers sets the helpers.
func SetHelpers(namespace func(t *testing.T) bool, skip func(t testing.TB, thing string, why any), mark func(t testing.TB), seed func(t testing.TB) uint64) {
	inNamespace, skipWithout, attacks, seedOf = namespace, skip, mark, seed
}

// namedFeeds are the feeds of a kernel.
var namedFeeds = map[string][]OpenFeed{"events": {OpenEvents}, "poll": {OpenPoll}}

// hasMountEvents returns an error if the kernel has no events of mounts. The kernel limits the
// listeners of a user: it waits for the listeners of other tests.
func hasMountEvents() error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		f, err := OpenEvents("")
		if err == nil {
			f.Close()
			return nil
		}
		if !errors.Is(err, unix.EMFILE) || time.Now().After(deadline) {
			return err
		}
		runtime.GC() // closes lost feeds
	}
}
