package provision_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
)

// TestStorageMayExist: the options of a call say whether an earlier call may have created the storage, of this run or of
// an earlier one.
func TestStorageMayExist(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", failing(2, context.DeadlineExceeded, true))
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		_, end := w.start()
		w.wait(time.Minute)
		w.bind()
		w.storage.on("provision", failing(1, context.DeadlineExceeded, true))
		w.createClaim(newClaim("b", "c"))
		w.wait(100 * time.Millisecond)
		end()
		require.Equal(w, []bool{false, true, true, false}, w.mayExist())

		w.start()
		w.wait(time.Minute)
		w.bind()
		require.Equal(w, []bool{false, true, true, false, true}, w.mayExist(), "after a restart")
		require.Equal(w, v1.ClaimBound, w.claim("b").Status.Phase)
		w.updateClaim("b", func(c *v1.PersistentVolumeClaim) {
			c.Annotations[provision.DiscardAnnotation] = "ended x"
			c.Finalizers = append(c.Finalizers, provision.ClaimFinalizer)
		})
		w.wait(time.Minute)
		require.Equal(w, []bool{false, true, true, false, true, true}, w.mayExist(), "after a discard beside the object")
	})
}

// mayExist returns the option of each call that had an effect.
func (w *world) mayExist() (all []bool) {
	w.storage.mu.Lock()
	defer w.storage.mu.Unlock()
	for _, o := range w.storage.made {
		all = append(all, o.MayExist)
	}
	return all
}
