package provision_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
)

// TestUnseenVolume: a claim whose volume ends before the cache has it gets another one.
func TestUnseenVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.start()
		stop := w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Drop: true})
		w.wait(time.Second)
		require.NotNil(w, w.volume(name))
		w.endVolume(name)
		stop()
		w.finish()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	})
}
