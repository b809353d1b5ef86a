package bind_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
)

// TestWritesOfManyPairs: while claims are being bound no volume becomes available before its turn: each pair
// costs four writes, also on a slow API server.
func TestWritesOfManyPairs(t *testing.T) {
	const pairs = 1000
	inWorld(t, func(w *world) {
		for i := range pairs {
			w.createVolume(newVolume(fmt.Sprint("pv-", i), "1Gi"))
			w.createClaim(newClaim(fmt.Sprint("claim-", i), "1Gi"))
		}
		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch}, Latency: 300 * time.Millisecond})
		w.start()
		w.wait(10 * time.Minute)
		counts := map[string]int{}
		for _, write := range w.writes() {
			counts[write[:strings.LastIndex(write, " ")]]++
		}
		require.Equal(w, map[string]int{"patch s": pairs, "patch claims": pairs, "patch s/status": pairs, "patch claims/status": pairs}, counts)
	})
}

// TestUnusedVolume: a new volume becomes available once no claim is handled, and after a minute at the latest.
func TestUnusedVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.createVolume(newVolume("pv", "1Gi"))
		w.wait(time.Second)
		require.Equal(w, []string{"patch s/status pv"}, w.writes())

		w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "binder", Verb: apitest.Patch, Name: "claim"}, Latency: time.Hour})
		w.createVolume(newVolume("chosen", "2Gi"))
		w.createClaim(newClaim("claim", "2Gi"))
		w.wait(time.Second)
		w.createVolume(newVolume("other", "1Gi"))
		w.wait(30 * time.Second)
		require.NotContains(w, w.writes(), "patch s/status other", "a claim is being bound")
		w.wait(time.Minute)
		require.Contains(w, w.writes(), "patch s/status other")
	})
}
