package mounttest

import (
	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest/internal/contract"
)

// A Runner is a [T] that runs tests of its own: a *testing.T.
type Runner[R any] interface {
	T
	Run(name string, test func(t R)) bool
}

// A TestOption changes what [TestInterface] tests.
type TestOption func(suite)

// A suite is the tests of the contract, by name.
type suite map[string]contract.Test

// Except skips the test with this name, and gives the reason why a mounter does not keep its
// promise. An unknown name is a failure.
func Except(name, reason string) TestOption {
	return func(tests suite) {
		known := tests[name] != nil
		tests[name] = func(t contract.T, _ contract.Config) {
			if !known {
				t.Fatalf("Except: no test %q in the contract (%s)", name, reason)
			}
			t.Skip(reason)
		}
	}
}

// TestInterface tests a mounter against the contract of mount.Interface: it has a test for
// each sentence of the documentation. Go infers R, which is *testing.T. Each test calls
// newMounter once. The returned mounter must not have mounts below a new temporary
// directory.
//
// A mounter that is no [Fake], and wraps none (mount.As), counts as a real one: the tests write through its mounts, and
// must run where they may mount, see [Namespace]. [Except] leaves out tests that a mounter
// cannot pass.
func TestInterface[R Runner[R]](t R, newMounter func(t R, config mount.Config) mount.Interface, options ...TestOption) {
	tests := suite(contract.Tests())
	for _, option := range options {
		option(tests)
	}
	for name, test := range tests {
		t.Run(name, func(t R) {
			test(t, contract.Config{
				New:    func(config mount.Config) mount.Interface { return newMounter(t, config) },
				FakeOf: fakeOf,
				Short:  testflag.Short(),
			})
		})
	}
}

// A faultyFake adapts a Fake to the contract.
type faultyFake struct{ *Fake }

func fakeOf(m mount.Interface) contract.Fake {
	if fake, ok := mount.As[*Fake](m); ok {
		return faultyFake{fake}
	}
	return nil
}

func (f faultyFake) FailUnmount(path string, err error, times int) {
	f.Inject(Fault{Op: OpUnmount, Path: path, Err: err, Times: times})
}
