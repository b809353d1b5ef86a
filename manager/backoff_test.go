package manager_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume/volumetest"
	"k8s.io/apimachinery/pkg/types"
)

// TestFailuresAreForgotten: nothing is remembered of pods that are gone, though others have
// the volume.
func TestFailuresAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		stays := podWith("0", "a")
		_, stop := n.runUp(stays)
		stop()
		n.config.Resync = -1
		m, stop := n.runUp(stays)
		defer stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no luck")})
		for i := range 20 {
			uid := types.UID(fmt.Sprint("pod-", i))
			n.source.SetPod(podWith(uid, "a"))
			time.Sleep(time.Minute)
			require.NotZero(t, m.Remembered())
			n.source.RemovePod(uid)
			time.Sleep(time.Minute)
		}
		require.Zero(t, m.Remembered())
	})
}
