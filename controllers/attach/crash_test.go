package attach_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestCrashAtEachCall: a controller that ends before or after the effect of any of its writes is continued by the
// next one.
func TestCrashAtEachCall(t *testing.T) {
	var writes []string
	inWorld(t, func(w *world) { writes = w.moveDisks() })
	for _, verb := range []apitest.Verb{apitest.Create, apitest.Patch, apitest.Delete} {
		count := len(slices.DeleteFunc(slices.Clone(writes), func(call string) bool { return !strings.HasPrefix(call, string(verb)+" ") }))
		require.NotZero(t, count, verb)
		for at := range count {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprint(verb, " ", at, ", late ", late), func(t *testing.T) {
					inWorld(t, func(w *world) {
						fault := apitest.Fault{Call: apitest.Call{Verb: verb}, Skip: at, Times: 1, Crash: true, AfterEffect: late}
						w.Server.Inject(fault)
						w.moveDisks()
					})
				})
			}
		}
	}
}

// moveDisks attaches a disk of a CSI driver and one of a plugin to a node, moves them to another one, and detaches
// them. After each of these a controller is restarted, in case that it has ended. It returns the writes.
func (w *world) moveDisks() (writes []string) {
	w.Helper()
	w.addDisks(single, plugged)
	use := func(node string) {
		w.addPod("single-"+node, node, "single")
		w.addPod("plugged-"+node, node, "plugged")
	}
	leave := func(node string) {
		w.deletePod("single-" + node)
		w.deletePod("plugged-" + node)
	}
	for _, phase := range []struct {
		change func()
		want   string
	}{
		{func() { use("a") }, "plugged on a at /dev/plugged, single attached to a, single on a"},
		{func() { leave("a"); use("b") }, "plugged on b at /dev/plugged, single attached to b, single on b"},
		{func() { leave("b") }, ""},
	} {
		end := w.start()
		phase.change()
		w.settleFor(10 * time.Minute)
		end()
		end = w.start()
		w.settleFor(10 * time.Minute)
		require.Equal(w, phase.want, w.state())
		end()
	}
	require.Empty(w, w.holder())
	require.Equal(w, []string{"attach plugged to a", "detach plugged from a", "attach plugged to b", "detach plugged from b"}, slices.Compact(w.asked()))
	return w.took()
}

// settleFor lets the driver answer once a minute.
func (w *world) settleFor(d time.Duration) {
	w.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.settle()
		w.Wait(time.Minute)
	}
}

func forbidden(apitest.Call) error {
	return apierrors.NewForbidden(storagev1.Resource("volumeattachments"), "csi-x", errors.New("the policy forbids it"))
}

// TestRefusedDetach: volumesAttached names a volume again whose VolumeAttachment the API server refuses to delete.
func TestRefusedDetach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Backoff = time.Minute
		w.attachSingle()
		w.took()
		w.announced()
		allow := w.Server.Inject(apitest.Fault{
			Call: apitest.Call{Verb: apitest.Delete, Resource: "volumeattachments"}, Share: 1, Failure: forbidden,
		})
		w.deletePod("one")
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
		require.Equal(t, []string{"patch nodes/status a", "delete volumeattachments", "patch nodes/status a"}, w.took())
		require.Regexp(t, `^single FailedDetachVolume: DetachVolume.Detach failed for volume "single" on node "a": .* the policy forbids it$`, strings.Join(w.announced(), "\n"))
		allow()
		w.Wait(time.Minute)
		w.settle()
		require.Empty(t, w.state())
	})
}

// TestLastPlace: of two volumes that want the last place of a node at the same time one receives it.
func TestLastPlace(t *testing.T) {
	inWorld(t, func(w *world) {
		w.limitA(1)
		w.addDisks(single, shared)
		w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Resource: "volumeattachments"}, Share: 1, Latency: time.Second})
		w.start()
		w.addPod("one", "a", "single")
		w.addPod("two", "a", "shared")
		w.Wait(10 * time.Second)
		require.Len(t, slices.DeleteFunc(w.took(), func(call string) bool { return call != "create volumeattachments" }), 1)
	})
}
