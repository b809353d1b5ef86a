package manager_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
)

// An invalidSource returns invalid objects for names "bad".
type invalidSource struct {
	*manager.MemorySource
	claim func(*v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim
	pv    func(*v1.PersistentVolume) *v1.PersistentVolume
}

func (s invalidSource) GetPersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	claim, err := s.MemorySource.GetPersistentVolumeClaim(ctx, namespace, name)
	if name == "bad" && s.claim != nil {
		claim = s.claim(claim.DeepCopy())
	}
	return claim, err
}

func (s invalidSource) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	pv, err := s.MemorySource.GetPersistentVolume(ctx, name)
	if name == "bad" && s.pv != nil {
		pv = s.pv(pv.DeepCopy())
	}
	return pv, err
}

// TestInvalidObjectFailsOnlyItsVolume: an inconsistent answer of the source fails only the volume that it is about.
// The pod's other volumes come up.
func TestInvalidObjectFailsOnlyItsVolume(t *testing.T) {
	named := func(name string) func(*v1.PersistentVolume) *v1.PersistentVolume {
		return func(pv *v1.PersistentVolume) *v1.PersistentVolume {
			pv.Name = name
			return pv
		}
	}
	for name, test := range map[string]struct {
		lies    invalidSource
		errText string
	}{
		"no claim and no error":  {invalidSource{claim: func(*v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim { return nil }}, "returned nil without an error"},
		"no volume and no error": {invalidSource{pv: func(*v1.PersistentVolume) *v1.PersistentVolume { return nil }}, "returned nil without an error"},
		"an empty claim": {invalidSource{claim: func(*v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
			return &v1.PersistentVolumeClaim{}
		}}, "no volume yet"},
		"an empty volume": {invalidSource{pv: func(*v1.PersistentVolume) *v1.PersistentVolume { return &v1.PersistentVolume{} }}, "not bound"},
		"a way up":        {invalidSource{pv: named("..")}, "volume.name"},
		"a way down":      {invalidSource{pv: named("a/b")}, "volume.name"},
		"no name":         {invalidSource{pv: named("")}, "volume.name"},
		"nothing behind it": {invalidSource{pv: func(pv *v1.PersistentVolume) *v1.PersistentVolume {
			pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{}
			return pv
		}}, "no volume plugin matched"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("good")
				n.claim("bad")
				test.lies.MemorySource = n.source
				n.read(test.lies)
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "bad", "good")
				n.source.SetPod(pod)
				time.Sleep(time.Hour)
				var failed *manager.WaitError
				require.ErrorAs(t, m.WaitForAttachAndMount(endedContext(t), pod), &failed)
				require.Len(t, failed.Volumes, 1)
				require.Equal(t, "v0", failed.Volumes[0].Name)
				require.ErrorContains(t, failed.Volumes[0].Err, test.errText)
				require.Equal(t, 1, n.mountCount())
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, n.mountCount())
			})
		})
	}
}

// A changedPanicSource panics in Changed.
type changedPanicSource struct{ podsAndClaims }

// TestPanicInChangedFailsRun: a panic in Changed is the error of Run.
func TestPanicInChangedFailsRun(t *testing.T) {
	n := newNode(t, perPod)
	n.read(changedPanicSource{n.source})
	m, err := manager.New(n.config)
	require.NoError(t, err)
	require.ErrorContains(t, m.Run(t.Context()), "no luck")
}

// An invalidPodSource returns invalid pods, or panics, while isInvalid is set.
type invalidPodSource struct {
	podsAndClaims
	pods      func() []*v1.Pod
	isInvalid atomic.Bool
}

// TestInvalidPodListKeepsVolumes: after an invalid list of pods existing volumes stay up, and the
// source is read again.
func TestInvalidPodListKeepsVolumes(t *testing.T) {
	for name, pods := range map[string]func() []*v1.Pod{
		"nil pod": func() []*v1.Pod { return []*v1.Pod{nil} },
		"panic":   func() []*v1.Pod { panic("no luck") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("a")
				source := &invalidPodSource{podsAndClaims: n.source, pods: pods}
				n.read(source)
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				synctest.Wait()
				source.isInvalid.Store(true)
				n.source.RemovePod("1")
				time.Sleep(time.Second)
				require.Equal(t, 1, n.mountCount())
				synctest.Wait()
				source.isInvalid.Store(false)
				n.down(m, pod)
			})
		})
	}
}

// A nilSource returns nil, and no error, for claims or volumes.
type nilSource struct {
	*manager.MemorySource
	volumes bool
}

// TestNilObjectIsError: a nil object without an error from the source is an error of its own, not a
// missing claim or volume.
func TestNilObjectIsError(t *testing.T) {
	for name, volumes := range map[string]bool{"a claim": false, "a volume": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("a")
				n.read(nilSource{n.source, volumes})
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "a")
				require.NoError(t, n.source.SetPod(pod))
				time.Sleep(time.Minute)
				require.ErrorContains(t, m.WaitForAttachAndMount(endedContext(t), pod), "the source returned nil without an error")
			})
		})
	}
}

type subscribePanicSource struct{ *manager.MemorySource }

// TestPanicInSubscribeFailsRun: a panic in Subscribe is the error of Run, which can be called again.
func TestPanicInSubscribeFailsRun(t *testing.T) {
	n := newNode(t, perPod)
	n.read(subscribePanicSource{n.source})
	m, err := manager.New(n.config)
	require.NoError(t, err)
	for range 2 {
		err := m.Run(t.Context())
		require.ErrorContains(t, err, "no luck")
		require.False(t, errors.Is(err, manager.ErrRunning))
	}
}

func (subscribePanicSource) Subscribe(func(manager.Change)) func() { panic("no luck") }

func (changedPanicSource) Changed() <-chan struct{} { panic("no luck") }

func (s *invalidPodSource) Pods(ctx context.Context) ([]*v1.Pod, error) {
	if s.isInvalid.Load() {
		return s.pods(), nil
	}
	return s.podsAndClaims.Pods(ctx)
}

func (s nilSource) GetPersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	if !s.volumes {
		return nil, nil
	}
	return s.MemorySource.GetPersistentVolumeClaim(ctx, namespace, name)
}

func (s nilSource) GetPersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	return nil, nil
}
