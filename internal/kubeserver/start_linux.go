package kubeserver

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// readyTime is the time limit for the start of a server. It allows for a busy machine.
const readyTime = 2 * time.Minute

// prefix is the prefix of the names of tests that use a server: "make test-cluster" runs these
// tests.
const prefix = "TestKube"

// Start starts a server that ends with the test, and returns once the server is ready. It fails the
// test if the name of the test does not begin with TestKube, or if the server is not ready within
// two minutes. If the cache lacks the programs (see [Fetch]), Start skips the test, or fails it if
// VOLUMEKIT_REQUIRE names kube.
func Start(t mounttest.T) *Server {
	t.Helper()
	if !strings.HasPrefix(t.Name(), prefix) {
		t.Fatalf("a test that uses an API server has a name that begins with %s, got %s", prefix, t.Name())
	}
	programs, err := Find()
	if errors.Is(err, fs.ErrNotExist) {
		mounttest.SkipWithout(t, "kube", err)
	}
	if err != nil {
		t.Fatalf("find the programs of Kubernetes: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readyTime)
	defer cancel()
	s, err := run(ctx, programs, t.TempDir())
	if err != nil {
		t.Fatalf("start the API server: %v", err)
	}
	t.Cleanup(s.Stop)
	return s
}
