package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestConcurrentLookups: lookups during operations return consistent results.
func TestConcurrentLookups(t *testing.T) {
	n := newNode(t, perPod)
	m, stop := n.run()
	var pods []*v1.Pod
	for i := range 20 {
		n.claim(fmt.Sprint("a", i))
		pods = append(pods, podWith(types.UID(fmt.Sprint(i)), fmt.Sprint("a", i)))
	}
	var done atomic.Bool
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			for !done.Load() {
				for _, v := range m.State().Volumes {
					for _, pod := range v.Pods {
						if pod.State == "present" && pod.Path == "" {
							t.Errorf("%s is up nowhere", v.Unique)
						}
					}
				}
				for _, pod := range pods {
					for name, v := range m.GetMountedVolumesForPod(pod.UID) {
						if name != v.Name || v.Path == "" || v.Spec == nil {
							t.Errorf("%+v", v)
						}
					}
				}
				m.GetVolumesInUse()
				m.VolumeIsAttached("a")
			}
		})
	}
	for range 3 {
		require.NoError(t, n.source.SetPod(pods...))
		for _, pod := range pods {
			n.up(m, pod)
			require.Len(t, m.GetMountedVolumesForPod(pod.UID), 1, "the wait has reported it as up")
		}
		for _, pod := range pods {
			n.source.RemovePod(pod.UID)
			n.down(m, pod)
		}
	}
	done.Store(true)
	readers.Wait()
	stop()
}

// TestFinalErrorEndsWait: with EndOnFinalError a final error of a volume ends the wait, and the
// error of the wait names the volume.
func TestFinalErrorEndsWait(t *testing.T) {
	for name, fault := range map[string]volumetest.Fault{
		"set-up":  {Method: volumetest.SetUp, Err: volume.ErrNotSupported},
		"a plain": {Method: volumetest.MountDevice, Err: errors.New("no luck")},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a")
				n.plugin.Inject(fault)
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "a")
				require.NoError(t, n.source.SetPod(pod))
				begin := time.Now()
				err := m.WaitForVolumes(t.Context(), pod, manager.WaitOptions{EndOnFinalError: true})
				require.Zero(t, time.Since(begin), "of a clock that is not the machine's")
				requireFinal(t, err)
				require.ErrorIs(t, err, fault.Err)

				n.plugin.ClearFaults()
				n.up(m, pod) // it was tried again, all the same
			})
		})
	}
}

func requireFinal(t *testing.T, err error) {
	t.Helper()
	require.ErrorIs(t, err, manager.ErrFinal)
	var waited *manager.WaitError
	require.ErrorAs(t, err, &waited)
	require.Len(t, waited.Volumes, 1)
	require.Equal(t, "v0", waited.Volumes[0].Name)
	require.True(t, waited.Volumes[0].Final)
}

// TestInvalidSpecEndsWait: with EndOnFinalError an invalid specification, for which no operation
// starts, ends the wait, too.
func TestInvalidSpecEndsWait(t *testing.T) {
	for name, change := range map[string]func(*node, *v1.Pod){
		"no plugin": func(n *node, _ *v1.Pod) {
			n.claim("a", func(pv *v1.PersistentVolume) {
				pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{RBD: &v1.RBDPersistentVolumeSource{}}
			})
		},
		"device":         func(_ *node, pod *v1.Pod) { withDevices(pod) },
		"no such volume": func(_ *node, pod *v1.Pod) { pod.Spec.Volumes = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("a")
				pod := podWith("1", "a")
				change(n, pod)
				m, stop := n.run()
				defer stop()
				require.NoError(t, n.source.SetPod(pod))
				requireFinal(t, m.WaitForVolumes(t.Context(), pod, manager.WaitOptions{EndOnFinalError: true}))
			})
		})
	}
}

// TestTemporaryErrorDoesNotEndWait: errors that can pass are not final and end no wait: a missing or
// unbound claim, a transient failure of the source or a plugin, a missing pod.
func TestTemporaryErrorDoesNotEndWait(t *testing.T) {
	for name, change := range map[string]func(*node, *failingSource){
		"no claim":  func(n *node, _ *failingSource) { n.source.RemoveClaim("default", "a") },
		"not bound": setClaimLost,
		"source":    func(_ *node, source *failingSource) { source.failures.Store(1 << 20) },
		"plugin": func(n *node, _ *failingSource) {
			n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: volume.ErrTransient})
		},
		"uncertain": func(n *node, _ *failingSource) {
			n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: volume.ErrUncertain})
		},
		"no such pod": func(n *node, _ *failingSource) { n.source.RemovePod("1") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, source := newFailingNode(t, perPod)
				n.claim("a")
				pod := podWith("1", "a")
				require.NoError(t, n.source.SetPod(pod))
				change(n, source)
				m, stop := n.run()
				defer stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := m.WaitForVolumes(ctx, pod, manager.WaitOptions{EndOnFinalError: true})
				require.NotErrorIs(t, err, manager.ErrFinal)
				require.ErrorIs(t, err, ctx.Err())
			})
		})
	}
}
