package bind_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A slowRecycler recycles NFS volumes: each call lasts until end is called, or its context ends.
type slowRecycler struct {
	volume.VolumePlugin // nil: no pod is set up

	mu    sync.Mutex
	begun int
	calls map[int]chan error
}

func (p *slowRecycler) Init(context.Context, volume.VolumeHost) error { return nil }
func (p *slowRecycler) GetPluginName() string                         { return pluginName }
func (p *slowRecycler) CanSupport(spec *volume.Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.NFS != nil
}
func (p *slowRecycler) RequiresRemount(*volume.Spec) bool { return false }

func (p *slowRecycler) Recycle(ctx context.Context, _ string, _ *volume.Spec) error {
	p.mu.Lock()
	p.begun++
	n, result := p.begun, make(chan error, 1)
	if p.calls == nil {
		p.calls = map[int]chan error{}
	}
	p.calls[n] = result
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.calls, n)
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return volume.AsUncertain(ctx.Err())
	}
}

// counts returns the numbers of calls that have begun, and of those that last.
func (p *slowRecycler) counts() [2]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return [2]int{p.begun, len(p.calls)}
}

// end ends all calls.
func (p *slowRecycler) end(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, result := range p.calls {
		result <- err
	}
}

// inRecyclable runs a test with a volume of the policy Recycle that is bound to the claim a.
func inRecyclable(t *testing.T, test func(*world, *slowRecycler)) {
	t.Helper()
	recycler := &slowRecycler{}
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, recycler)
	require.NoError(t, err)
	inWorld(t, func(w *world) {
		w.config.Plugins = plugins
		w.start()
		pv := newVolume("pv", "1Gi")
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
		w.createVolume(pv)
		w.createClaim(newClaim("a", "1Gi"))
		w.wait(time.Minute)
		test(w, recycler)
	})
}

// TestReservedBeforeTheMark: a volume that a user reserves for another claim directly before its recycling begins is
// not recycled.
func TestReservedBeforeTheMark(t *testing.T) {
	inRecyclable(t, func(w *world, r *slowRecycler) {
		w.server.Inject(apitest.Fault{
			Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "pv"}, Latency: time.Minute, Times: 1,
			When: func(call apitest.Call) bool { return call.Subresource == "" },
		})
		w.deleteClaim("a")
		w.wait(30 * time.Second)
		require.Equal(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
		w.refer("pv", w.createClaim(newClaim("b", "1Gi")))
		w.wait(time.Hour)
		require.Equal(w, [2]int{0, 0}, r.counts())
		require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
	})
}

// TestReservedBeforeTheRelease: a volume that a user reserves for another claim while its release is being written does
// not become Released.
func TestReservedBeforeTheRelease(t *testing.T) {
	inRecyclable(t, func(w *world, r *slowRecycler) {
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Subresource: "status", Name: "pv"}, Latency: time.Minute, Times: 1})
		w.deleteClaim("a")
		w.wait(30 * time.Second)
		watched, err := w.cluster.PersistentVolumes().Watch(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		defer watched.Stop()
		w.refer("pv", w.createClaim(newClaim("b", "1Gi")))
		w.wait(time.Hour)
		for len(watched.ResultChan()) > 0 {
			event := <-watched.ResultChan()
			require.NotEqual(w, v1.VolumeReleased, event.Object.(*v1.PersistentVolume).Status.Phase)
		}
		require.Equal(w, [2]int{0, 0}, r.counts())
		require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
	})
}

// releaseUnseen creates a Released volume whose claim, "late", lives. The cache receives no events of claims until end.
func (w *world) releaseUnseen() (end func()) {
	w.Helper()
	end = w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Drop: true})
	claim := w.createClaim(newClaim("late", "1Gi"))
	pv := newVolume("released", "1Gi")
	pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "late", UID: claim.UID}
	held := w.server.HoldEvents("binder")
	pv = w.createVolume(pv)
	pv.Status.Phase = v1.VolumeReleased
	_, err := w.cluster.PersistentVolumes().UpdateStatus(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
	held()
	return end
}

// TestReleasedVolumeOfLivingClaim: a volume with the phase Released whose claim lives at the API server, and not in the
// cache, is not recycled.
func TestReleasedVolumeOfLivingClaim(t *testing.T) {
	inRecyclable(t, func(w *world, r *slowRecycler) {
		w.releaseUnseen()
		w.wait(time.Hour)
		require.Equal(w, [2]int{0, 0}, r.counts())
	})
}

// TestPolicyIsReadBeforeARecycling: a volume whose policy has become Retain at the API server, and not in the cache, is
// not recycled.
func TestPolicyIsReadBeforeARecycling(t *testing.T) {
	inRecyclable(t, func(w *world, r *slowRecycler) {
		w.createPod(newPod("pod", "a", w.claim("a").UID))
		w.deleteClaim("a")
		w.wait(time.Minute)
		require.Equal(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
		w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Delay: 10 * time.Hour})
		w.updateVolume("pv", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		w.deletePod("pod")
		w.wait(time.Hour)
		require.Equal(w, [2]int{0, 0}, r.counts())
		require.NotContains(w, w.volume("pv").Annotations, bind.RecyclingAnnotation)
	})
}

// TestClaimComesAgain: the volume of a claim that has ended is released also if another claim has its name.
func TestClaimComesAgain(t *testing.T) {
	inRecyclable(t, func(w *world, r *slowRecycler) {
		w.stopAll()
		w.deleteClaim("a")
		w.createClaim(newClaim("a", "1Gi"))
		w.start()
		w.wait(time.Minute)
		require.Equal(w, [2]int{1, 1}, r.counts())
		require.Equal(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
	})
}

// inRecycling runs a test with a volume whose recycling has begun, and a claim that waits for a volume.
func inRecycling(t *testing.T, test func(*world, *slowRecycler, func())) {
	t.Helper()
	inRecyclable(t, func(w *world, recycler *slowRecycler) {
		end := w.ends[0]
		w.deleteClaim("a")
		w.createClaim(newClaim("b", "1Gi"))
		w.wait(30 * time.Second)
		require.Equal(w, [2]int{1, 1}, recycler.counts())
		test(w, recycler, end)
	})
}

func (w *world) unrefer(name string) {
	w.Helper()
	w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
}

func (w *world) requireFree() {
	w.Helper()
	require.Empty(w, w.claim("b").Spec.VolumeName)
	require.NotEqual(w, v1.VolumeAvailable, w.volume("pv").Status.Phase)
}

// TestUnreferredWhileRecycled: a volume whose reference is removed during its recycling receives a claim only
// afterwards.
func TestUnreferredWhileRecycled(t *testing.T) {
	uid := func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "" }
	for name, edit := range map[string]func(*v1.PersistentVolume){
		"reference": func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil }, "UID": uid,
		"label": func(pv *v1.PersistentVolume) { pv.Labels = map[string]string{"k": "v"} },
	} {
		t.Run(name, func(t *testing.T) {
			inRecycling(t, func(w *world, r *slowRecycler, _ func()) {
				w.updateVolume("pv", edit)
				w.wait(time.Hour)
				w.requireFree()
				require.Equal(w, [2]int{1, 1}, r.counts())
				r.end(nil)
				w.wait(time.Minute)
				require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
				require.NotContains(w, w.volume("pv").Annotations, bind.RecyclingAnnotation)
				require.Equal(w, [2]int{1, 0}, r.counts())
			})
		})
	}
}

// TestReservedWhileRecycled: a volume that a user reserves for another claim during its recycling is bound
// afterwards.
func TestReservedWhileRecycled(t *testing.T) {
	inRecycling(t, func(w *world, r *slowRecycler, _ func()) {
		w.refer("pv", w.claim("b"))
		w.wait(time.Hour)
		w.requireFree()
		r.end(nil)
		w.wait(time.Minute)
		require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
	})
}

// TestUncertainRecycling: a volume whose recycling may still run, after an uncertain failure or a crash, is
// recycled once more before it receives a claim.
func TestUncertainRecycling(t *testing.T) {
	for _, crashes := range []bool{false, true} {
		inRecycling(t, func(w *world, r *slowRecycler, end func()) {
			if crashes {
				end()
				w.unrefer("pv")
				w.start()
			} else {
				r.end(volume.AsUncertain(context.DeadlineExceeded))
				w.unrefer("pv")
			}
			w.wait(time.Minute)
			w.requireFree()
			w.wait(time.Hour)
			w.requireFree()
			require.Equal(w, [2]int{2, 1}, r.counts())
			r.end(nil)
			w.wait(time.Minute)
			require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
		})
	}
}

// TestFailedRecycling: a failure that is certain ends the recycling: then an administrator may keep the data.
func TestFailedRecycling(t *testing.T) {
	inRecycling(t, func(w *world, r *slowRecycler, _ func()) {
		w.updateVolume("pv", func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		r.end(volume.ErrNotSupported)
		w.wait(time.Minute)
		require.Equal(w, v1.VolumeFailed, w.volume("pv").Status.Phase)
		require.NotContains(w, w.volume("pv").Annotations, bind.RecyclingAnnotation)
	})
}

// TestPausesOfRecycler: the recycling of a volume is repeated after pauses, also if the recycler fails at once: the
// mark of the next recycling is a change of the volume.
func TestPausesOfRecycler(t *testing.T) {
	inRecyclable(t, func(w *world, r *slowRecycler) {
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Latency: 10 * time.Millisecond})
		w.deleteClaim("a")
		for range 20 {
			w.wait(100 * time.Millisecond)
			r.end(errors.New("broken"))
		}
		w.wait(0)
		require.Equal(w, [2]int{3, 0}, r.counts(), "after 0, 0.5 and 1.5 s")
	})
}

// TestTwoBindersRecycle: of two binders one recycles a volume at a time, and the other one continues after the
// first one has ended.
func TestTwoBindersRecycle(t *testing.T) {
	inRecycling(t, func(w *world, r *slowRecycler, end func()) {
		second := w.server.Connect("second")
		config := w.config
		config.Cluster = second
		controller, err := bind.New(config)
		require.NoError(w, err)
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		defer func() {
			cancel()
			require.NoError(w, <-ended)
		}()
		w.wait(time.Hour)
		require.Equal(w, [2]int{1, 1}, r.counts())
		require.NotEmpty(w, w.server.Calls(apitest.Call{Identity: "second"}))
		end()
		w.wait(10 * time.Minute)
		require.Equal(w, [2]int{2, 1}, r.counts())
		r.end(nil)
		w.wait(time.Minute)
		require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
	})
}

// TestLostMark: a binder ends its call when it cannot renew its mark, before another one may take it over.
func TestLostMark(t *testing.T) {
	inRecycling(t, func(w *world, r *slowRecycler, _ func()) {
		restore := w.server.StartOutage("binder")
		w.wait(5 * time.Minute)
		require.Equal(w, [2]int{1, 0}, r.counts())
		w.requireFree()
		restore()
		w.wait(time.Hour)
		require.Equal(w, [2]int{2, 1}, r.counts())
		w.updateVolume("pv", func(pv *v1.PersistentVolume) {
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, bind.RecyclingAnnotation, "edited")
		})
		w.wait(2 * time.Minute)
		require.Equal(w, [2]int{2, 0}, r.counts())
	})
}

// TestMarkOfAnotherRun: a binder whose volume another one has marked meanwhile does not end the recycling.
func TestMarkOfAnotherRun(t *testing.T) {
	inRecycling(t, func(w *world, r *slowRecycler, _ func()) {
		w.updateVolume("pv", func(pv *v1.PersistentVolume) {
			metav1.SetMetaDataAnnotation(&pv.ObjectMeta, bind.RecyclingAnnotation, "edited")
		})
		r.end(nil)
		w.wait(time.Minute)
		w.requireFree()
		require.Equal(w, "edited", w.volume("pv").Annotations[bind.RecyclingAnnotation])
	})
}

// An attachingRecycler also attaches its volumes.
type attachingRecycler struct{ *slowRecycler }

func (attachingRecycler) NewAttacher() (volume.Attacher, error)                 { return nil, volume.ErrNotSupported }
func (attachingRecycler) NewDetacher() (volume.Detacher, error)                 { return nil, volume.ErrNotSupported }
func (attachingRecycler) CanAttach(context.Context, *volume.Spec) (bool, error) { return true, nil }
func (attachingRecycler) GetVolumeName(spec *volume.Spec) (string, error) {
	return spec.PersistentVolume.Name, nil
}

// TestRecyclingReadsNodes: a volume that a node or a VolumeAttachment shows is not recycled.
func TestRecyclingReadsNodes(t *testing.T) {
	recycler := attachingRecycler{&slowRecycler{}}
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, recycler)
	require.NoError(t, err)
	inWorld(t, func(w *world) {
		w.config.Plugins = plugins
		w.start()
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}}
		node.Status.VolumesInUse = []v1.UniqueVolumeName{pluginName + "/pv"}
		node, err := w.cluster.Nodes().Create(w.Context(), node, metav1.CreateOptions{})
		require.NoError(w, err)
		pv := newVolume("pv", "1Gi")
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRecycle
		w.createVolume(pv)
		w.createClaim(newClaim("a", "1Gi"))
		w.wait(time.Minute)
		w.deleteClaim("a")
		w.wait(10 * time.Minute)
		require.Equal(w, [2]int{0, 0}, recycler.counts())
		require.Contains(w, w.reasons(), "VolumeFailedRecycle")
		require.NotContains(w, w.volume("pv").Annotations, bind.RecyclingAnnotation)
		node.Status.VolumesInUse = nil
		_, err = w.cluster.Nodes().Update(w.Context(), node, metav1.UpdateOptions{})
		require.NoError(w, err)
		_, err = w.cluster.Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.wait(time.Hour)
		require.Equal(w, [2]int{1, 1}, recycler.counts())
	})
}

// TestDeletionElsewhere: without plugins, other programs delete all storage, and find the phase Released.
func TestDeletionElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		for name, provisioner := range map[string]string{"static": "", "kubernetes": "kubernetes.io/other", "external": "example.com/p"} {
			pv := newVolume(name, "1Gi")
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "gone", UID: "gone"}
			if provisioner != "" {
				pv.Annotations[provision.ProvisionedByAnnotation] = provisioner
			}
			w.createVolume(pv)
		}
		w.wait(time.Minute)
		for _, name := range []string{"static", "kubernetes", "external"} {
			require.Equal(w, v1.VolumeReleased, w.volume(name).Status.Phase, name)
		}
		require.Empty(w, w.reasons())
	})
}
