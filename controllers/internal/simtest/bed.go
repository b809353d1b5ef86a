package simtest

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Bed is an API server in memory with the processes of one program, for a test of few steps in a bubble of
// testing/synctest.
type Bed struct {
	*testing.T
	Server  *apitest.Server
	Cluster api.Cluster // of the test

	identity string
	ends     []func()

	mu     sync.Mutex
	events []string
}

// InBed runs a test in a bubble, and ends the processes that it has started. They connect by the identity.
func InBed(t *testing.T, identity string, test func(*Bed)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{Seed: 1})
		b := &Bed{T: t, Server: server, Cluster: server.Direct(), identity: identity}
		defer func() {
			for _, end := range b.ends {
				end()
			}
		}()
		test(b)
	})
}

// Start starts a process, and waits for a time in which its caches sync. end crashes it.
func (b *Bed) Start(settle time.Duration, main Main) (end func()) {
	b.Helper()
	return b.StartAs(b.identity, settle, main)
}

// StartAs is Start for a process that connects by another identity.
func (b *Bed) StartAs(identity string, settle time.Duration, main Main) (end func()) {
	b.Helper()
	p := StartProcess(b.Context(), b.Server, identity, main)
	end = sync.OnceFunc(func() {
		if err := p.Crash(); err != nil {
			b.Error(err)
		}
	})
	b.ends = append(b.ends, end)
	b.Wait(settle)
	return end
}

// Wait waits for a duration, and until nothing happens.
func (b *Bed) Wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Gap ends the watch of a resource, and prevents its lists until the end: then a new list follows.
func (b *Bed) Gap(resource string) (end func()) {
	b.Wait(time.Minute) // a watch that ends at once counts as failed
	var ends []func()
	for _, verb := range []apitest.Verb{apitest.Watch, apitest.List} {
		call := apitest.Call{Verb: verb, Resource: resource, Identity: b.identity}
		ends = append(ends, b.Server.Inject(apitest.Fault{Call: call, Failure: apitest.Refused}))
	}
	b.Server.CutWatches(b.identity)
	b.Wait(10 * time.Second)
	return func() {
		b.Server.Compact()
		for _, end := range ends {
			end()
		}
		b.Wait(5 * time.Minute)
	}
}

// EndClaim ends a claim at once, in spite of its finalizers.
func (b *Bed) EndClaim(namespace, name string) {
	b.Helper()
	claims := b.Cluster.PersistentVolumeClaims(namespace)
	require.NoError(b, claims.Delete(b.Context(), name, metav1.DeleteOptions{}))
	claim, err := claims.Get(b.Context(), name, metav1.GetOptions{})
	require.NoError(b, err)
	claim.Finalizers = nil
	_, err = claims.Update(b.Context(), claim, metav1.UpdateOptions{})
	require.NoError(b, err)
}

// Took returns the calls of the program since the last time, without watches and lists.
func (b *Bed) Took() (all []string) {
	for _, call := range b.Server.Calls(apitest.Call{Identity: b.identity}) {
		if call.Verb != apitest.Watch && call.Verb != apitest.List {
			all = append(all, call.String())
		}
	}
	b.Server.ForgetCalls()
	return all
}

// Announce keeps an event of the program.
func (b *Bed) Announce(e api.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, e.Type+" "+e.Reason+": "+e.Message)
}

// Announced returns the events since the last time.
func (b *Bed) Announced() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	events := b.events
	b.events = nil
	return events
}
