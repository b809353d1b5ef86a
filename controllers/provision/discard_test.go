package provision_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A twin is the storage as one of two controllers calls it. Provision ends a time after its effect, and so
// does Delete, whose effect comes after the same time. The binder would refuse volumes of the twin that
// isRefused.
type twin struct {
	*storage
	provision time.Duration
	delete    time.Duration
	isRefused bool
}

func (t twin) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	pv, err := t.storage.Provision(ctx, o)
	if err != nil {
		return nil, err
	}
	time.Sleep(t.provision)
	if t.isRefused {
		pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Mi")}
	}
	return pv, nil
}

func (t twin) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	time.Sleep(t.delete)
	err := t.storage.Delete(ctx, pv)
	time.Sleep(t.delete)
	return err
}

// startTwin starts a controller with an identity of its own.
func (w *world) startTwin(identity string, t twin) (cluster *apitest.Cluster) {
	w.Helper()
	t.storage = w.storage
	w.config.Provisioner = t
	cluster, _ = w.startAs(identity)
	return cluster
}

// TestDiscardBesideAnother: of two controllers one alone discards the storage of a claim, with a call of
// Delete from the 10th to the 30th second that has its effect in the 20th. The other one has called
// Provision before, and describes its volume at a time of its own, also with old caches. In the end the
// claim has a volume with storage, and no mark. No object is stored while the claim shows a discard in
// progress.
func TestDiscardBesideAnother(t *testing.T) {
	const begins, takesEffect, ends = 10 * time.Second, 20 * time.Second, 30 * time.Second
	crashes := map[string]time.Duration{"": 0, ", the first one crashes before the effect": 15 * time.Second, ", the first one crashes after the effect": 25 * time.Second}
	for name, described := range map[string]time.Duration{
		"before the discard": begins / 2, "before the effect": begins + 5*time.Second - 1, "after the effect": takesEffect + 2*time.Second, "after the discard": ends + begins,
	} {
		for _, isStale := range []bool{false, true} {
			for suffix, crash := range crashes {
				t.Run(fmt.Sprintf("%s, stale %v%s", name, isStale, suffix), func(t *testing.T) {
					inWorld(t, func(w *world) { testDiscardBesideAnother(w, begins, described, crash, isStale) })
				})
			}
		}
	}
}

func testDiscardBesideAnother(w *world, begins, described, crash time.Duration, isStale bool) {
	w.createClass(newClass("c"))
	name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
	discards := w.startTwin("discards", twin{provision: begins, delete: begins, isRefused: true})
	w.startTwin("stores", twin{provision: described})
	w.wait(time.Second)
	if isStale { // the object may be stored during the call of Delete
		w.storage.check = nil
		release := w.server.HoldEvents("stores")
		time.AfterFunc(time.Minute, release)
	}
	isSeen := described > begins && !isStale
	seconds := 1
	pass := func(until time.Duration) {
		for ; seconds < int(until/time.Second); seconds++ {
			w.wait(time.Second)
			w.bind()
			if isSeen && w.hasBegunMark("a") {
				require.Nil(w, w.volume(name), "stored during the discard")
			}
		}
	}
	if crash > 0 {
		pass(crash)
		discards.Crash()
	}
	pass(2 * time.Minute)
	w.finish()
	require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	require.Equal(w, []string{name}, w.storage.names())
	require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
	require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
	if described < begins {
		require.Zero(w, w.storage.callsOf("delete"))
	}
	w.server.ForgetCalls()
	w.wait(24 * time.Hour)
	require.Empty(w, w.server.Calls(apitest.Call{Identity: "stores", Verb: apitest.Patch}))
	w.deleteClaim("a")
	w.finish()
	w.checkNothingLeft()
}

// TestFailedDiscardBesideAnother: a controller that starts during the discard of another one waits for its end. The
// call of Delete has its effect, and fails. The first controller may end after it has marked this.
func TestFailedDiscardBesideAnother(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		t.Run(fmt.Sprintf("crashes %v", crashes), func(t *testing.T) { testFailedDiscardBesideAnother(t, crashes) })
	}
}

func testFailedDiscardBesideAnother(t *testing.T, crashes bool) {
	inWorld(t, func(w *world) {
		w.storage.check = nil
		w.storage.on("delete", failing(1, context.DeadlineExceeded, true))
		w.createClass(newClass("c"))
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.startTwin("discards", twin{provision: 10 * time.Second, delete: 10 * time.Second, isRefused: true})
		w.wait(12 * time.Second)
		require.True(t, w.hasBegunMark("a"))
		w.startTwin("stores", twin{})
		w.wait(5 * time.Second)
		require.Empty(w, w.volumes())
		if crashes {
			w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "discards", Verb: apitest.Patch}, Times: 1, Crash: true, AfterEffect: true})
		}
		w.finish()
		require.Equal(w, []string{name}, w.storage.names())
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	})
}

// hasBegunMark reports whether a claim has the mark of a discard in progress.
func (w *world) hasBegunMark(name string) bool {
	var state, id string
	_, _ = fmt.Sscan(w.claim(name).Annotations[provision.DiscardAnnotation], &state, &id)
	return state == "begun"
}

// storeWithoutStorage has one controller discard the storage of claim "a" in class "c", and another one store its object
// meanwhile and end at a request with the verb. It returns the name of the volume, which is bound then and has no storage.
func (w *world) storeWithoutStorage(verb apitest.Verb) (name string) {
	w.Helper()
	name = "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
	discards := w.startTwin("discards", twin{provision: 10 * time.Second, delete: 10 * time.Second, isRefused: true})
	w.startTwin("stores", twin{provision: 25 * time.Second})
	w.wait(time.Second)
	w.server.HoldEvents("stores")
	w.server.Inject(apitest.Fault{When: func(call apitest.Call) bool {
		return call.Identity == "stores" && call.Verb == verb && w.storage.callsOf("delete") > 0
	}, Times: 1, Crash: true, AfterEffect: true})
	w.wait(26 * time.Second)
	require.NotNil(w, w.volume(name))
	discards.Crash()
	w.bind()
	require.Empty(w, w.storage.names(), "the volume is stored, and its storage is discarded")
	return name
}

// TestStorerCrashes: the controller that stores the object ends before it reads the mark of the discard.
// A later run provisions the storage again.
func TestStorerCrashes(t *testing.T) {
	for name, test := range map[string]struct {
		verb        apitest.Verb // at which it ends
		isUnguarded bool
	}{"create": {apitest.Create, false}, "patch": {apitest.Patch, false}, "create, without guards of claims": {apitest.Create, true}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.config.UnguardedClaims = test.isUnguarded
				w.createClass(newClass("c"))
				name := w.storeWithoutStorage(test.verb)
				w.startTwin("later", twin{})
				w.finish()
				require.Equal(w, []string{name}, w.storage.names())
				require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
			})
		})
	}
}

// TestMarkOfATenant: the mark of a tenant on a bound claim is no reason for a call. With the finalizer it may be the
// mark of an earlier run: Provision is called once more, and a call that fails keeps the storage.
func TestMarkOfATenant(t *testing.T) {
	for _, mark := range []string{"x", "ended 1", "begun 1"} {
		t.Run(mark+" alone", func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				w.createClaim(newClaim("a", "c"))
				_, end := w.start()
				w.wait(time.Second)
				w.bind()
				w.wait(time.Minute)
				w.storage.on("provision", failing(99, errors.New("fails"), false))
				w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.DiscardAnnotation] = mark })
				w.wait(24 * time.Hour)
				end()
				w.start()
				w.wait(24 * time.Hour)
				require.Equal(w, 1, w.storage.callsOf("provision"))
				require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
			})
		})
		t.Run(mark, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
				w.start()
				w.wait(time.Second)
				w.bind()
				w.updateClaim("a", func(c *v1.PersistentVolumeClaim) {
					c.Annotations[provision.DiscardAnnotation] = mark
					c.Finalizers = append(c.Finalizers, provision.ClaimFinalizer)
				})
				w.finish()
				require.Equal(w, 2, w.storage.callsOf("provision"))
				require.Zero(w, w.storage.callsOf("delete"))
				require.Equal(w, []string{name}, w.storage.names())
				require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
			})
		})
	}
}
