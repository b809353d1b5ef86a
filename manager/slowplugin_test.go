package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestDeadServerDelaysNoOtherVolume: volumes whose server does not respond delay no other volume,
// also if there are more of them than workers.
func TestDeadServerDelaysNoOtherVolume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.config.Workers = 2
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: 24 * time.Hour, Times: 5})
		m, stop := n.run()
		var dead []*v1.Pod
		for _, uid := range []string{"1", "2", "3", "4", "5"} {
			n.claim("dead-" + uid)
			dead = append(dead, podWith(types.UID(uid), "dead-"+uid))
		}
		n.source.SetPod(dead...)
		time.Sleep(time.Minute)
		n.claim("a")
		alive := podWith("6", "a")
		n.source.SetPod(alive)
		n.up(m, alive)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, m.WaitForAttachAndMount(ctx, dead[0]), "set up for pod 1 in flight since")
		stop()
	})
}

// TestNextPodWaitsForTearDown: the next pod of a volume waits for the tear-down of the previous pod, and its
// wait returns that reason.
func TestNextPodWaitsForTearDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		first, next := podWith("1", "a"), podWith("2", "a")
		m, stop := n.runUp(first)
		n.plugin.Inject(volumetest.Fault{Method: volumetest.TearDown, Delay: time.Hour, Times: 1})
		n.source.RemovePod("1")
		n.source.SetPod(next)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(t, m.WaitForAttachAndMount(ctx, next), "tear down for pod 1 in flight")
		n.up(m, next)
		n.down(m, first)
		stop()
	})
}
