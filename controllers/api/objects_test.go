package api_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A world is Objects on a server, in a bubble of synctest.
type world struct {
	*testing.T
	*server
	claims *api.Objects[*v1.PersistentVolumeClaim]
}

var key = api.Key{Namespace: "ns", Name: "claim"}

func claim(volume string) *v1.PersistentVolumeClaim {
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	c.Spec.VolumeName = volume
	return c
}

const byVolume = "volume"

// inWorld runs test with Objects whose cache has synced.
func inWorld(t *testing.T, prepare func(*server), test func(world)) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		prepare(s)
		ctx, cancel := context.WithCancel(t.Context())
		cache := api.NewCache(s.claimsOf(""), api.CacheConfig{})
		require.NoError(t, cache.AddIndex(byVolume, func(c *v1.PersistentVolumeClaim) []string { return []string{c.Spec.VolumeName} }))
		objects := api.NewObjects(s.claimsOf, cache)
		var running sync.WaitGroup
		running.Go(func() { require.NoError(t, cache.Run(ctx)) })
		running.Go(func() { require.NoError(t, objects.Run(ctx)) })
		require.NoError(t, cache.WaitForSync(ctx))
		synctest.Wait()
		s.takeCalls()
		test(world{t, s, objects})
		cancel()
		running.Wait()
	})
}

// seen returns the volume of the claim as a controller sees it by each kind of read; "-" means
// that the claim does not exist.
func (w world) seen() string {
	w.Helper()
	volume := "-"
	got, err := w.claims.Get(w.Context(), key)
	require.NoError(w, err)
	if got != nil {
		volume = got.Spec.VolumeName
	}
	list, err := w.claims.List(w.Context())
	require.NoError(w, err)
	if got == nil {
		require.Empty(w, list)
		return volume
	}
	require.Equal(w, []*v1.PersistentVolumeClaim{got}, list)
	list, err = w.claims.ByIndex(w.Context(), byVolume, volume)
	require.NoError(w, err)
	require.Equal(w, []*v1.PersistentVolumeClaim{got}, list)
	list, err = w.claims.ByIndex(w.Context(), byVolume, "another")
	require.NoError(w, err)
	require.Empty(w, list)
	return volume
}

func (w world) get() *v1.PersistentVolumeClaim {
	w.Helper()
	got, err := w.claims.Get(w.Context(), key)
	require.NoError(w, err)
	return got
}

// set updates the claim from the newest known state.
func (w world) set(volume string) error {
	changed := w.get().DeepCopy()
	changed.Spec.VolumeName = volume
	_, err := w.claims.Update(w.Context(), changed)
	return err
}

func stored(s *server) { s.put(claim("a")) }

func empty(*server) {}

// TestReadsSeeOwnWrites: with a cache that has seen no write, and after it has seen them.
func TestReadsSeeOwnWrites(t *testing.T) {
	tests := map[string]struct {
		prepare func(*server)
		write   func(world) error
		want    string
		calls   []string
	}{
		"create": {empty, func(w world) error {
			_, err := w.claims.Create(w.Context(), claim("b"))
			return err
		}, "b", []string{"create"}},
		"create with a generated name": {empty, func(w world) error {
			generated := claim("b")
			generated.Name, generated.GenerateName = "", "claim"
			created, err := w.claims.Create(w.Context(), generated)
			key.Name = created.Name
			w.Cleanup(func() { key.Name = "claim" })
			return err
		}, "b", []string{"create"}},
		"update": {stored, func(w world) error { return w.set("b") }, "b", []string{"update"}},
		"two updates": {stored, func(w world) error { return errors.Join(w.set("b"), w.set("c")) }, "c",
			[]string{"update", "update"}},
		"update of the status": {stored, func(w world) error {
			changed := w.get().DeepCopy()
			changed.Spec.VolumeName = "b"
			_, err := w.claims.UpdateStatus(w.Context(), changed)
			return err
		}, "b", []string{"update status"}},
		"patch": {stored, func(w world) error {
			_, err := w.claims.Patch(w.Context(), key, types.MergePatchType, []byte("b"))
			return err
		}, "b", []string{"patch"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.prepare, func(w world) {
				w.hold()
				require.NoError(w, test.write(w))
				synctest.Wait()
				require.Equal(w, test.want, w.seen())
				require.Equal(w, test.calls, w.takeCalls())
				w.release()
				synctest.Wait()
				require.Equal(w, test.want, w.seen())
				w.put(withVolume(w.get(), "others"))
				synctest.Wait()
				require.Equal(w, "others", w.seen())
				require.Empty(w, w.takeCalls(), "reads call no API server")
				require.Zero(w, api.OwnStates(w.claims), "own states end")
			})
		})
	}
}

func withVolume(claim *v1.PersistentVolumeClaim, volume string) *v1.PersistentVolumeClaim {
	changed := claim.DeepCopy()
	changed.Spec.VolumeName = volume
	return changed
}

// TestCacheWinsOnceItIsNewer: another program's write after an own one is seen, although the cache
// delivers both late.
func TestCacheWinsOnceItIsNewer(t *testing.T) {
	inWorld(t, stored, func(w world) {
		w.hold()
		require.NoError(w, w.set("b"))
		w.put(withVolume(w.get(), "c"))
		require.Equal(w, "b", w.seen())
		w.release()
		synctest.Wait()
		require.Equal(w, "c", w.seen())
	})
}

func TestDelete(t *testing.T) {
	remove := func(w world) error { return w.claims.Delete(w.Context(), w.get(), metav1.DeleteOptions{}) }
	finalized := func(s *server) {
		c := claim("a")
		c.Finalizers = []string{"example.com/one"}
		s.put(c)
	}
	t.Run("is seen before the cache shows it", func(t *testing.T) {
		inWorld(t, stored, func(w world) {
			w.hold()
			require.NoError(w, remove(w))
			require.NotNil(w, w.get().DeletionTimestamp)
			require.Equal(w, "a", w.seen(), "the API server has not said that the claim is gone")
			w.release()
			synctest.Wait()
			require.Equal(w, "-", w.seen())
			require.Equal(w, []string{"delete"}, w.takeCalls())
			require.Zero(w, api.OwnStates(w.claims))
		})
	})
	t.Run("of a claim with a finalizer, which is removed then", func(t *testing.T) {
		inWorld(t, finalized, func(w world) {
			w.hold()
			require.NoError(w, remove(w))
			changed := w.get().DeepCopy()
			require.NotNil(w, changed.DeletionTimestamp)
			require.Equal(w, []string{"delete", "get"}, w.takeCalls(), "the version after the deletion is read once")
			changed.Finalizers = nil
			_, err := w.claims.Update(w.Context(), changed)
			require.NoError(w, err, "no conflict with the own deletion")
			require.Equal(w, "-", w.seen(), "the last finalizer ended the claim")
			w.release()
			synctest.Wait()
			require.Equal(w, "-", w.seen())
			require.Equal(w, []string{"update"}, w.takeCalls())
			require.Zero(w, api.OwnStates(w.claims))
		})
	})
	t.Run("of a claim with a finalizer, in lists and once the cache shows it", func(t *testing.T) {
		inWorld(t, finalized, func(w world) {
			w.hold()
			require.NoError(w, remove(w))
			for range 3 {
				list, err := w.claims.ByIndex(w.Context(), byVolume, "a")
				require.NoError(w, err)
				require.Len(w, list, 1)
				require.NotNil(w, list[0].DeletionTimestamp)
			}
			w.release()
			synctest.Wait()
			require.NotNil(w, w.get().DeletionTimestamp)
			require.Equal(w, []string{"delete"}, w.takeCalls())
			require.Zero(w, api.OwnStates(w.claims))
		})
	})
	t.Run("in a version that is old", func(t *testing.T) {
		inWorld(t, finalized, func(w world) {
			w.hold()
			before := w.get()
			w.put(withVolume(before, "b"))
			err := w.claims.Delete(w.Context(), before, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &before.ResourceVersion}})
			require.True(w, apierrors.IsConflict(err))
			w.release()
			synctest.Wait()
			require.Equal(w, "b", w.seen())
			require.Equal(w, []string{"delete"}, w.takeCalls(), "the cache has a newer version than that of the precondition")
		})
	})
	t.Run("of a claim that another program wrote meanwhile", func(t *testing.T) {
		inWorld(t, finalized, func(w world) {
			w.hold()
			w.put(withVolume(w.get(), "b"))
			require.NoError(w, remove(w))
			require.NotNil(w, w.get().DeletionTimestamp)
			require.Equal(w, "b", w.seen())
			w.release()
			synctest.Wait()
			require.NotNil(w, w.get().DeletionTimestamp)
			require.Zero(w, api.OwnStates(w.claims))
		})
	})
	t.Run("of a claim that does not exist", func(t *testing.T) {
		inWorld(t, stored, func(w world) {
			w.hold()
			w.remove(key.Namespace, key.Name)
			require.Equal(w, "a", w.seen())
			require.True(w, apierrors.IsNotFound(remove(w)))
			require.Equal(w, "-", w.seen(), "the API server has said so")
			w.release()
			synctest.Wait()
			require.Equal(w, "-", w.seen())
			require.Zero(w, api.OwnStates(w.claims))
		})
	})
	t.Run("of a claim of which another one has the name", func(t *testing.T) {
		inWorld(t, stored, func(w world) {
			w.hold()
			w.remove(key.Namespace, key.Name)
			w.put(claim("b"))
			require.True(w, apierrors.IsConflict(remove(w)), "the UID is checked")
			require.Equal(w, "b", w.seen())
			require.Equal(w, []string{"delete", "get"}, w.takeCalls())
		})
	})
	t.Run("and a new claim of the same name", func(t *testing.T) {
		inWorld(t, stored, func(w world) {
			w.hold()
			require.NoError(w, remove(w))
			_, err := w.claims.Create(w.Context(), claim("b"))
			require.NoError(w, err)
			require.Equal(w, "b", w.seen())
			w.release()
			synctest.Wait()
			require.Equal(w, "b", w.seen())
			require.Zero(w, api.OwnStates(w.claims))
		})
	})
}

// TestConflict: after a conflict with another program the next decision is based on the newest
// state, whether the cache has it or not.
func TestConflict(t *testing.T) {
	for name, late := range map[string]bool{"the cache is late": true, "the cache is in time": false} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, stored, func(w world) {
				w.hold()
				before := w.get()
				w.put(withVolume(before, "others"))
				_, err := w.claims.Update(w.Context(), withVolume(before, "b"))
				require.True(w, apierrors.IsConflict(err))
				calls := []string{"update", "get"}
				if !late {
					w.release()
					synctest.Wait()
					calls = calls[:1]
				}
				require.Equal(w, "others", w.seen())
				require.NoError(w, w.set("c"))
				require.Equal(w, append(calls, "update"), w.takeCalls())
			})
		})
	}
}

// TestCreateOfAnExistingClaim: the claim of a predecessor that the cache does not show yet.
func TestCreateOfAnExistingClaim(t *testing.T) {
	inWorld(t, empty, func(w world) {
		w.hold()
		w.put(claim("others"))
		_, err := w.claims.Create(w.Context(), claim("b"))
		require.True(w, apierrors.IsAlreadyExists(err))
		require.Equal(w, "others", w.seen())
		require.Equal(w, []string{"create", "get"}, w.takeCalls())
	})
}

// TestOpenOutcome: after a write that may have taken effect the next read asks the API server, and
// fails as long as the API server does not answer. A refused write changes nothing.
func TestOpenOutcome(t *testing.T) {
	tests := map[string]struct {
		err  error
		open bool
	}{
		"connection lost":   {errors.New("connection reset by peer"), true},
		"timeout":           {apierrors.NewTimeoutError("", 0), true},
		"internal error":    {apierrors.NewInternalError(errors.New("etcd")), true},
		"unavailable":       {apierrors.NewServiceUnavailable(""), true},
		"end of context":    {context.DeadlineExceeded, true},
		"too many requests": {apierrors.NewTooManyRequests("", 0), false},
		"invalid":           {apierrors.NewBadRequest(""), false},
		"forbidden":         {apierrors.NewForbidden(claimResource, "", nil), false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, stored, func(w world) {
				w.hold()
				w.after = func(string) error { return test.err }
				require.ErrorIs(w, w.set("b"), test.err)
				if !test.open {
					require.Equal(w, "a", w.seen())
					require.Equal(w, []string{"update"}, w.takeCalls())
					return
				}
				_, err := w.claims.Get(w.Context(), key)
				require.ErrorIs(w, err, test.err)
				_, err = w.claims.List(w.Context())
				require.ErrorIs(w, err, test.err)
				require.Equal(w, []string{"update", "get", "get"}, w.takeCalls())
				w.after = nil
				require.Equal(w, "b", w.seen())
				require.Equal(w, []string{"get"}, w.takeCalls())
			})
		})
	}
}

// TestOpenDelete: a delete of which the answer was lost.
func TestOpenDelete(t *testing.T) {
	inWorld(t, stored, func(w world) {
		w.hold()
		w.after = func(call string) error { w.after = nil; return errors.New("connection reset by peer") }
		require.Error(w, w.claims.Delete(w.Context(), w.get(), metav1.DeleteOptions{}))
		require.Equal(w, "-", w.seen())
		require.Equal(w, []string{"delete", "get"}, w.takeCalls())
		w.release()
		synctest.Wait()
		require.Equal(w, "-", w.seen())
		require.Zero(w, api.OwnStates(w.claims))
	})
}

// TestClaimGoneBeforeTheCacheHadIt: another program deletes a created claim, and the cache shows
// neither.
func TestClaimGoneBeforeTheCacheHadIt(t *testing.T) {
	inWorld(t, empty, func(w world) {
		w.hold()
		_, err := w.claims.Create(w.Context(), claim("b"))
		require.NoError(w, err)
		w.remove(key.Namespace, key.Name)
		w.cut()
		w.release()
		synctest.Wait()
		require.Equal(w, "b", w.seen(), "the cache may be late")
		time.Sleep(31 * time.Second)
		require.Equal(w, "-", w.seen())
		require.Subset(w, w.takeCalls(), []string{"get"})
	})
}

// TestClaimGoneBeforeCreateReturned: the cache shows the claim and its end while the create is
// under way.
func TestClaimGoneBeforeCreateReturned(t *testing.T) {
	inWorld(t, empty, func(w world) {
		inFlight := intercepted{w.claimsOf(key.Namespace), func() {
			synctest.Wait()
			w.remove(key.Namespace, key.Name)
			synctest.Wait()
		}}
		claims := api.NewObjects(func(string) intercepted { return inFlight }, w.claims.Cache())
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		go claims.Run(ctx)
		synctest.Wait()
		_, err := claims.Create(ctx, claim("b"))
		require.NoError(w, err)
		got, err := claims.Get(ctx, key)
		require.NoError(w, err)
		require.Nil(w, got)
	})
}

// intercepted calls created before Create returns.
type intercepted struct {
	api.PersistentVolumeClaims
	created func()
}

func (i intercepted) Create(ctx context.Context, claim *v1.PersistentVolumeClaim, o metav1.CreateOptions) (*v1.PersistentVolumeClaim, error) {
	stored, err := i.PersistentVolumeClaims.Create(ctx, claim, o)
	i.created()
	return stored, err
}

// TestReadOvertakenByAnOpenWrite: a live read that began before a write of open outcome does not
// settle the outcome.
func TestReadOvertakenByAnOpenWrite(t *testing.T) {
	inWorld(t, stored, func(w world) {
		w.hold()
		slow := &slowReads{PersistentVolumeClaims: w.claimsOf(key.Namespace), answer: make(chan struct{})}
		claims := api.NewObjects(func(string) *slowReads { return slow }, w.claims.Cache())
		read := make(chan *v1.PersistentVolumeClaim)
		go func() {
			got, err := claims.Live(w.Context(), key)
			require.NoError(w, err)
			read <- got
		}()
		synctest.Wait()
		w.after = func(string) error { w.after = nil; return errors.New("connection reset by peer") }
		_, err := claims.Update(w.Context(), withVolume(w.get(), "b"))
		require.Error(w, err)
		slow.answer <- struct{}{}
		require.Equal(w, "a", (<-read).Spec.VolumeName, "the read began before the write")

		go func() { slow.answer <- struct{}{} }()
		got, err := claims.Get(w.Context(), key)
		require.NoError(w, err)
		require.Equal(w, "b", got.Spec.VolumeName)
	})
}

// TestReadsOfOneOpenState: readers that need the same state from the API server at the same time share one call. A
// reader that comes after another open outcome makes a call of its own, and one whose ctx ends does not wait.
func TestReadsOfOneOpenState(t *testing.T) {
	inWorld(t, stored, func(w world) {
		w.hold()
		slow := &slowReads{PersistentVolumeClaims: w.claimsOf(key.Namespace), answer: make(chan struct{})}
		claims := api.NewObjects(func(string) *slowReads { return slow }, w.claims.Cache())
		fail := func() {
			w.after = func(string) error { w.after = nil; return context.DeadlineExceeded }
			_, err := claims.Patch(w.Context(), key, types.MergePatchType, []byte("b"))
			require.Error(w, err)
		}
		fail()
		w.takeCalls()
		var readers sync.WaitGroup
		read := func() {
			readers.Go(func() {
				list, err := claims.List(w.Context())
				require.NoError(w, err)
				require.Equal(w, "b", list[0].Spec.VolumeName)
			})
		}
		for range 5 {
			read()
		}
		synctest.Wait()
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		_, err := claims.Get(ended, key)
		require.ErrorIs(w, err, context.Canceled)
		require.Equal(w, []string{"get"}, w.takeCalls())
		slow.answer <- struct{}{}
		readers.Wait()

		w.release()
		synctest.Wait()
		w.hold()
		fail()
		read()
		synctest.Wait()
		fail()
		read()
		synctest.Wait()
		require.Equal(w, []string{"patch", "get", "patch", "get"}, w.takeCalls())
		go func() {
			for { // an overtaken read that ends last is repeated
				select {
				case slow.answer <- struct{}{}:
				case <-w.Context().Done():
					return
				}
			}
		}()
		readers.Wait()
	})
}

// TestReadOvertakenByADeletion: a live read that began before the deletion of a claim with a finalizer
// does not have the version after the deletion.
func TestReadOvertakenByADeletion(t *testing.T) {
	finalized := func(s *server) {
		c := claim("a")
		c.Finalizers = []string{"example.com/one"}
		s.put(c)
	}
	inWorld(t, finalized, func(w world) {
		w.hold()
		slow := &slowReads{PersistentVolumeClaims: w.claimsOf(key.Namespace), answer: make(chan struct{})}
		claims := api.NewObjects(func(string) *slowReads { return slow }, w.claims.Cache())
		go func() {
			_, err := claims.Live(w.Context(), key)
			require.NoError(w, err)
		}()
		synctest.Wait()
		require.NoError(w, claims.Delete(w.Context(), w.get(), metav1.DeleteOptions{}))
		slow.answer <- struct{}{}
		synctest.Wait()
		go func() { slow.answer <- struct{}{} }()
		got, err := claims.Get(w.Context(), key)
		require.NoError(w, err)
		changed := got.DeepCopy()
		changed.Finalizers = nil
		_, err = claims.Update(w.Context(), changed)
		require.NoError(w, err, "no conflict with the own deletion")
	})
}

// slowReads answers a Get, with the state of its beginning, when answer receives.
type slowReads struct {
	api.PersistentVolumeClaims
	answer chan struct{}
}

func (s *slowReads) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.PersistentVolumeClaim, error) {
	got, err := s.PersistentVolumeClaims.Get(ctx, name, o)
	<-s.answer
	return got, err
}

// TestFollowedEnd: without another read, an own state ends when the cache shows the end of the
// object.
func TestFollowedEnd(t *testing.T) {
	inWorld(t, stored, func(w world) {
		w.hold()
		require.NoError(w, w.set("b"))
		w.remove(key.Namespace, key.Name)
		require.Equal(w, 1, api.OwnStates(w.claims))
		w.release()
		synctest.Wait()
		require.Zero(w, api.OwnStates(w.claims))
	})
}

// TestRunWithEndedCache: a cache that has ended is an error, unless it has ended together with Run.
func TestRunWithEndedCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		informer := sharedInformer(t, s)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		informer.Run(ended.Done())
		objects := api.NewObjects(s.claimsOf, api.CacheOf[*v1.PersistentVolumeClaim](informer, nil))
		require.ErrorContains(t, objects.Run(t.Context()), "follow the cache")
		require.NoError(t, objects.Run(ended))
	})
}

// TestGetAllocations: a read of a namespaced object allocates the key of the cache.
func TestGetAllocations(t *testing.T) {
	inWorld(t, stored, func(w world) {
		ctx := w.Context()
		require.LessOrEqual(w, testing.AllocsPerRun(100, func() { _, _ = w.claims.Get(ctx, key) }), 1.0)
	})
}

// TestUpdateStatusUnsupported: a kind without a status subresource.
func TestUpdateStatusUnsupported(t *testing.T) {
	inWorld(t, stored, func(w world) {
		type plain struct {
			api.Client[*v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList]
		}
		claims := api.NewObjects(func(ns string) plain { return plain{w.claimsOf(ns)} }, w.claims.Cache())
		_, err := claims.UpdateStatus(w.Context(), claim("b"))
		require.ErrorIs(w, err, errors.ErrUnsupported)
		require.Empty(w, w.takeCalls())
		require.Zero(w, api.OwnStates(claims))
	})
}
