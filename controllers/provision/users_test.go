package provision_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// createReleased creates released volumes whose claims are gone.
func (w *world) createReleased(n int) {
	w.Helper()
	for i := range n {
		claim := newClaim(fmt.Sprint("gone-", i), "")
		claim.UID = types.UID(fmt.Sprint("gone-", i))
		w.createVolume(fmt.Sprint("v-", i), claim, func(*v1.PersistentVolume) {})
	}
}

// TestDeletionsShareLists: many deletions at the same time read the claims and the pods of a namespace by
// few lists, and few claims by themselves.
func TestDeletionsShareLists(t *testing.T) {
	for title, test := range map[string]struct{ claims, gets int }{"few claims": {10, 10}, "many claims": {600, 100}} {
		t.Run(title, func(t *testing.T) {
			inWorld(t, func(w *world) {
				for n := range test.claims {
					w.createClaim(newClaim(fmt.Sprint("other-", n), ""))
				}
				w.createReleased(100)
				w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "provisioner"}, Latency: 100 * time.Millisecond})
				w.server.ForgetCalls()
				w.start()
				w.wait(time.Minute)
				require.Equal(w, 100, w.storage.callsOf("delete"))
				require.LessOrEqual(w, countCalls(w, "list pods"), 10)
				require.LessOrEqual(w, countCalls(w, "list persistentvolumeclaims default"), 10)
				gets := countCalls(w, "get persistentvolumeclaims")
				require.LessOrEqual(w, gets, test.gets)
				if test.gets == 100 {
					require.Equal(w, test.gets, gets)
				}
			})
		})
	}
}

// TestSharedListShowsTheClaim: the list of the API server has the claims of volumes, and the cache does
// not.
func TestSharedListShowsTheClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.wait(time.Second)
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: 2 * time.Hour})
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "provisioner"}, Latency: 100 * time.Millisecond})
		for n := range 20 {
			claim := newClaim(fmt.Sprint("claim-", n), "")
			claim.Spec.VolumeName = fmt.Sprint("v-", n)
			claim = w.createClaim(claim)
			w.createVolume(fmt.Sprint("v-", n), claim, func(*v1.PersistentVolume) {})
		}
		w.server.ForgetCalls()
		w.wait(time.Hour)
		require.Zero(w, w.storage.callsOf("delete"))
		require.NotZero(w, countCalls(w, "list persistentvolumeclaims default"))
		require.LessOrEqual(w, countCalls(w, "get persistentvolumeclaims"), 60+20*60, "each volume looks once a minute, and the controller does not spin")
	})
}

// TestListsNeedNoPermission: deletions wait for the lists before they wait for the storage.
func TestListsNeedNoPermission(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Calls = 1
		w.createReleased(20)
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "provisioner", Verb: apitest.List}, Latency: time.Second})
		w.start()
		w.wait(6 * time.Second)
		require.Equal(w, 20, w.storage.callsOf("delete"))
	})
}

// TestReadsBeforeADeletionTimeOut: a read that takes longer than Config.Timeout fails, and does not occupy
// its worker.
func TestReadsBeforeADeletionTimeOut(t *testing.T) {
	for _, call := range []apitest.Call{
		{Verb: apitest.Get, Resource: "persistentvolumeclaims"}, {Verb: apitest.List, Resource: "pods"},
	} {
		t.Run(call.Resource, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.config.Timeout = time.Minute
				w.createReleased(1)
				w.server.Inject(apitest.Fault{Call: call, Times: 1, Latency: 24 * time.Hour})
				w.start()
				w.wait(10 * time.Minute)
				require.Equal(w, 1, w.storage.callsOf("delete"))
				require.Len(w, w.eventsOf("VolumeFailedDelete"), 1)
			})
		})
	}
}

// TestOldConfirmation: a deletion that has waited long for the storage reads the users again.
func TestOldConfirmation(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Calls = 1
		w.storage.on("delete", slowly(2*time.Minute))
		w.createReleased(2)
		w.start()
		w.wait(time.Second)
		require.Equal(w, 1, w.storage.callsOf("delete"))
		w.server.ForgetCalls()
		w.wait(2 * time.Minute)
		require.Equal(w, 2, w.storage.callsOf("delete"))
		require.Equal(w, 1, countCalls(w, "list pods"))
	})
}

// TestUnseenClaimOfReleasedVolume: a Released volume whose claim lives is deleted after the end of the claim,
// also if the cache never has the claim.
func TestUnseenClaimOfReleasedVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.wait(time.Second)
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Drop: true})
		claim := newClaim("claim", "")
		claim.Spec.VolumeName = "v"
		claim = w.createClaim(claim)
		w.createVolume("v", claim, func(*v1.PersistentVolume) {})
		w.wait(5 * time.Minute)
		require.Zero(w, w.storage.callsOf("delete"))
		w.deleteClaim("claim")
		w.wait(5 * time.Minute)
		require.Equal(w, 1, w.storage.callsOf("delete"))
	})
}
