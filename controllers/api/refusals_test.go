package api_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// notOfServer is a 404 that a proxy returns, or an API server that does not serve the path.
var notOfServer = apierrors.NewGenericServerResponse(http.StatusNotFound, "get", claimResource, key.Name, "404 page not found", 0, true)

// TestNotFoundOfAnotherServer: a 404 that does not come from the registry of the kind says nothing
// about the object, neither as the answer to a read nor to a write.
func TestNotFoundOfAnotherServer(t *testing.T) {
	require.True(t, apierrors.IsNotFound(notOfServer))
	inWorld(t, stored, func(w world) {
		w.before = func(string) error { return notOfServer }
		_, err := w.claims.Live(w.Context(), key)
		require.ErrorIs(w, err, notOfServer)
		_, err = w.claims.Patch(w.Context(), key, types.MergePatchType, []byte("b"), "unknown")
		require.ErrorIs(w, err, notOfServer)
		w.before = nil
		require.Equal(w, "a", w.seen())
	})
}

// TestNotFoundOfAWrite: a webhook or a missing namespace can refuse a write with a 404, so that the
// next read asks the API server.
func TestNotFoundOfAWrite(t *testing.T) {
	namespaces := schema.GroupResource{Resource: "namespaces"}
	inWorld(t, stored, func(w world) {
		w.before = func(string) error { w.before = nil; return apierrors.NewNotFound(namespaces, "x") }
		require.Error(w, w.set("b"))
		require.Equal(w, "a", w.seen())
		require.Equal(w, []string{"update", "get"}, w.takeCalls())
	})
}

// TestConflictWithoutAVersion: the write was based on no version, so that no state in the cache is
// known to be newer than the other program's.
func TestConflictWithoutAVersion(t *testing.T) {
	conflict := apierrors.NewConflict(claimResource, key.Name, nil)
	tests := map[string]struct {
		write func(world) error
		err   error
		call  string
	}{
		"patch": {func(w world) error {
			_, err := w.claims.Patch(w.Context(), key, types.MergePatchType, []byte("b"))
			return err
		}, conflict, "patch"},
		"update": {func(w world) error {
			_, err := w.claims.Update(w.Context(), claim("b"))
			return err
		}, conflict, "update"},
		"create": {func(w world) error {
			_, err := w.claims.Create(w.Context(), claim("b"))
			return err
		}, apierrors.NewAlreadyExists(claimResource, key.Name), "create"},
		"delete": {func(w world) error {
			return w.claims.Delete(w.Context(), w.get(), metav1.DeleteOptions{})
		}, conflict, "delete"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, stored, func(w world) {
				w.hold()
				w.put(withVolume(w.get(), "others"))
				w.before = func(string) error { w.before = nil; return test.err }
				require.ErrorIs(w, test.write(w), test.err)
				require.Equal(w, "others", w.seen())
				require.Equal(w, []string{test.call, "get"}, w.takeCalls())
			})
		})
	}
}

// TestCreateAfterTheEnd: another program creates a claim of the name of one that this program
// ended, and the cache shows the first one still.
func TestCreateAfterTheEnd(t *testing.T) {
	inWorld(t, stored, func(w world) {
		w.hold()
		first := w.get()
		w.remove(key.Namespace, key.Name)
		require.True(w, apierrors.IsNotFound(w.claims.Delete(w.Context(), first, metav1.DeleteOptions{})))
		require.Equal(w, "-", w.seen())
		w.put(claim("others"))
		_, err := w.claims.Create(w.Context(), claim("b"))
		require.True(w, apierrors.IsAlreadyExists(err))
		require.Equal(w, "others", w.seen())
	})
}

// TestListDuringAWriteOfOpenOutcome: the outcome of a write becomes open while a List reads
// another claim from the API server. The List contains both claims.
func TestListDuringAWriteOfOpenOutcome(t *testing.T) {
	inWorld(t, stored, func(w world) {
		other := w.put(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "other"}})
		synctest.Wait()
		w.hold()
		during := func() {}
		claims := api.NewObjects(func(namespace string) api.PersistentVolumeClaims {
			during()
			return w.claimsOf(namespace)
		}, w.claims.Cache())
		update := func(claim *v1.PersistentVolumeClaim) {
			w.after = func(string) error { w.after = nil; return context.DeadlineExceeded }
			_, err := claims.Update(w.Context(), claim)
			require.Error(w, err)
		}
		update(withVolume(w.get(), "b"))
		during = func() {
			during = func() {}
			update(withVolume(other, "c"))
		}
		list, err := claims.List(w.Context())
		require.NoError(w, err)
		var volumes []string
		for _, claim := range list {
			volumes = append(volumes, claim.Spec.VolumeName)
		}
		require.ElementsMatch(w, []string{"b", "c"}, volumes)
	})
}

// TestDeleteByName: an object without a UID stands for the one of its name.
func TestDeleteByName(t *testing.T) {
	tests := map[string]struct {
		prepare func(*server)
		calls   []string
	}{
		"in the cache":     {stored, []string{"delete"}},
		"not in the cache": {empty, []string{"delete", "get"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, test.prepare, func(w world) {
				w.hold()
				if w.get() == nil {
					finalized := claim("a")
					finalized.Finalizers = []string{"example.com/one"}
					w.put(finalized)
				}
				require.NoError(w, w.claims.Delete(w.Context(), claim(""), metav1.DeleteOptions{}))
				require.NotNil(w, w.get().DeletionTimestamp)
				require.Equal(w, test.calls, w.takeCalls())
			})
		})
	}
}

// TestDryRunDeletesNothing: reads show no deletion.
func TestDryRunDeletesNothing(t *testing.T) {
	inWorld(t, stored, func(w world) {
		claims := api.NewObjects(func(namespace string) dry { return dry{w.claimsOf(namespace)} }, w.claims.Cache())
		require.NoError(w, claims.Delete(w.Context(), w.get(), metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
		got, err := claims.Get(w.Context(), key)
		require.NoError(w, err)
		require.Nil(w, got.DeletionTimestamp)
	})
}

// dry deletes nothing.
type dry struct{ api.PersistentVolumeClaims }

func (dry) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }
