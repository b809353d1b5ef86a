package apitest

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest/internal/contract"
)

// T has the methods of a *testing.T that TestCluster uses.
type T interface {
	Cleanup(f func())
	Context() context.Context
	Fatalf(format string, args ...any)
	Helper()
	Skip(args ...any)
}

// A Runner is a [T] that runs tests of its own: a *testing.T.
type Runner[R any] interface {
	T
	Run(name string, test func(t R)) bool
}

// A ContractConfig configures TestCluster. R is *testing.T.
type ContractConfig[R any] struct {
	// New returns the clients of the server under test, for one subtest. All subtests may share a
	// server: each has a namespace of its own.
	New func(t R) api.Cluster
	// Compact makes all versions so far expire. Nil: the subtests that need it are skipped.
	Compact func(t R)
	// Except has the names of subtests that are skipped because the server cannot pass them, with
	// the reasons. An unknown name fails the test.
	Except map[string]string
	// Around runs a subtest, such as in a bubble of testing/synctest. Nil: directly.
	Around func(t R, test func(t R))
}

// TestCluster tests an implementation of [api.Cluster] against the rules of an API server that this
// module relies on. Each rule is a subtest.
func TestCluster[R Runner[R]](t R, config ContractConfig[R]) {
	tests := contract.Tests()
	for name, reason := range config.Except {
		if tests[name] == nil {
			t.Fatalf("there is no subtest %s to leave out (%s)", name, reason)
		}
		tests[name] = func(t contract.T, _ contract.Config) { t.Skip(reason) }
	}
	for name, test := range tests {
		run := func(t R) {
			c := contract.Config{Cluster: config.New(t)}
			if config.Compact != nil {
				c.Compact = func() { config.Compact(t) }
			}
			test(t, c)
		}
		t.Run(name, func(t R) {
			if config.Around != nil {
				config.Around(t, run)
			} else {
				run(t)
			}
		})
	}
}
