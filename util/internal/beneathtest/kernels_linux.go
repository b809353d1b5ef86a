package beneathtest

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
)

// OnEachKernel runs a test in a namespace, on a tmpfs of its own, with openat2 and
// without it.
func OnEachKernel(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	for _, way := range []string{"openat2", "without"} {
		t.Run(way, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			if way == "openat2" && !beneath.HasOpenat2() {
				mounttest.SkipWithout(t, "openat2", "this kernel has none")
			}
			beneath.WithoutOpenat2 = way == "without"
			test(t, testbed.Tmpfs(t, testbed.Dir(t)))
		})
	}
}
