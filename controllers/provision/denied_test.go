package provision_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
)

// TestDeniedVolume: a volume that admission denies is a refusal, whatever the code: its storage is deleted, and its
// claim can be deleted.
func TestDeniedVolume(t *testing.T) {
	for _, code := range []int{400, 403, 406, 409, 422, 500} {
		inWorld(t, func(w *world) {
			w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, Failure: apitest.Denied(code)})
			w.createClass(newClass("c"))
			w.createClaim(newClaim("a", "c"))
			w.start()
			w.wait(5 * time.Minute)
			require.Len(w, w.eventsOf("ProvisioningFailed"), 1, code)
			require.Contains(w, w.eventsOf("ProvisioningFailed")[0], "denied the request")
			require.Empty(w, w.storage.names())
			w.deleteClaim("a")
			w.finish()
			w.checkNothingLeft()
		})
	}
}

// TestMissingRight: a write for which the controller has no right is an event, once, and waits for the right.
func TestMissingRight(t *testing.T) {
	for name, test := range map[string]struct {
		call  apitest.Call
		began bool // the storage exists
	}{
		"the volume":          {apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, true},
		"the claim":           {apitest.Call{Verb: apitest.Patch, Resource: "persistentvolumeclaims"}, false},
		"the claim, a status": {apitest.Call{Verb: apitest.Get, Resource: "persistentvolumes"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				grant := w.server.Inject(apitest.Fault{Call: test.call, Failure: apitest.Forbidden})
				w.createClass(newClass("c"))
				w.createClaim(newClaim("a", "c"))
				w.start()
				w.wait(time.Hour)
				if test.call.Verb != apitest.Get {
					require.Len(w, w.eventsOf("RequestDenied"), 1)
					require.Contains(w, w.eventsOf("RequestDenied")[0], `cannot `+string(test.call.Verb))
					require.Equal(w, test.began, len(w.storage.names()) == 1)
				}
				grant()
				w.wait(10 * time.Minute)
				w.bind()
				require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
				w.deleteClaim("a")
				w.finish()
				w.checkNothingLeft()
			})
		})
	}
}

// TestDeniedDeletion: a volume whose object cannot be deleted, or lose its finalizer, has an event.
func TestDeniedDeletion(t *testing.T) {
	for _, call := range []apitest.Call{
		{Verb: apitest.Delete, Resource: "persistentvolumes"}, {Verb: apitest.Patch, Resource: "persistentvolumes"},
	} {
		for name, failure := range map[string]apitest.Failure{"right": apitest.Forbidden, "webhook": apitest.Denied(403)} {
			t.Run(string(call.Verb)+" "+name, func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.createClass(newClass("c"))
					w.createClaim(newClaim("a", "c"))
					w.start()
					w.wait(time.Second)
					w.bind()
					allow := w.server.Inject(apitest.Fault{Call: call, Failure: failure})
					w.deleteClaim("a")
					w.wait(time.Second)
					w.bind() // releases the volume
					w.wait(time.Hour)
					require.Len(w, w.eventsOf("RequestDenied"), 1)
					allow()
					w.finish()
					w.checkNothingLeft()
				})
			})
		}
	}
}
