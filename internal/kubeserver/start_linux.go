package kubeserver

import (
	"context"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// readyTime is the time limit for the start of a server. It allows for a busy machine.
const readyTime = 2 * time.Minute

// prefix is the prefix of the names of tests that use a server: "make test-cluster" runs these
// tests.
const prefix = "TestKube"

// Start starts a server that ends with the test, and returns once the server is ready. It fails the
// test if the name of the test does not begin with TestKube, or if the server is not ready within
// two minutes. Unless VOLUMEKIT_REQUIRE names kube, Start skips the test; otherwise it fails the test if the
// cache lacks the programs (see [Fetch]).
func Start(t mounttest.T) *Server {
	t.Helper()
	if !strings.HasPrefix(t.Name(), prefix) {
		t.Fatalf("a test that uses an API server has a name that begins with %s, got %s", prefix, t.Name())
	}
	if !testflag.Required("kube") {
		mounttest.SkipWithout(t, "kube", "the test starts an API server: make test-cluster")
	}
	programs, err := Find()
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
