package provision_test

import (
	"context"
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

// TestFailedDiscardBesideAnother: a controller that starts during the discard of another one takes the mark
// for that of an earlier run, stores the object and removes the mark. Then the call of Delete has its effect,
// and fails.
func TestFailedDiscardBesideAnother(t *testing.T) {
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
		w.bind()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
		w.wait(5 * time.Second)
		require.Empty(w, w.storage.names())
		w.finish()
		require.Equal(w, []string{name}, w.storage.names())
		require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
	})
}

// hasBegunMark reports whether a claim has the mark of a discard in progress.
func (w *world) hasBegunMark(name string) bool {
	var state, id string
	_, _ = fmt.Sscan(w.claim(name).Annotations[provision.DiscardAnnotation], &state, &id)
	return state == "begun"
}

// TestStorerCrashes: the controller that stores the object ends before it reads the mark of the discard.
// A later run provisions the storage again.
func TestStorerCrashes(t *testing.T) {
	for _, verb := range []apitest.Verb{apitest.Create, apitest.Patch} {
		t.Run(string(verb), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
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
				require.Empty(w, w.storage.names())
				w.startTwin("later", twin{})
				w.finish()
				require.Equal(w, []string{name}, w.storage.names())
				require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
			})
		})
	}
}

// TestMarkOfATenant: a tenant marks a claim. Provision is called once more for it at most, and a call
// that fails keeps the storage.
func TestMarkOfATenant(t *testing.T) {
	for _, mark := range []string{"x", "ended 1", "begun 1"} {
		t.Run(mark, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
				w.start()
				w.wait(time.Second)
				w.bind()
				w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.DiscardAnnotation] = mark })
				w.finish()
				require.Equal(w, 2, w.storage.callsOf("provision"))
				require.Zero(w, w.storage.callsOf("delete"))
				require.Equal(w, []string{name}, w.storage.names())
				require.NotContains(w, w.claim("a").Annotations, provision.DiscardAnnotation)
			})
		})
	}
}
