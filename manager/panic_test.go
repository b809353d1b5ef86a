package manager_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

type panicPlugin struct {
	*volumetest.FakePlugin
	method atomic.Value // string
}

// TestPanicFailsOneOperation: a panic in any method of a plugin fails the operation or the read.
func TestPanicFailsOneOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		bad := &panicPlugin{FakePlugin: n.plugin}
		plugins, err := volume.NewVolumePluginMgr(t.Context(), n.host, bad)
		require.NoError(t, err)
		n.config.Plugins = plugins
		m, stop := n.run()
		pod := podWith("1", "a")
		for _, in := range []string{"GetVolumeName", "NewMounter", "CanAttach"} {
			bad.method.Store(in)
			n.source.SetPod(pod.DeepCopy()) // an unchanged pod is not resolved again
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorContains(t, m.WaitForAttachAndMount(ctx, pod), "panicked: "+in)
			cancel()
		}
		bad.method.Store("")
		n.up(m, pod)
		bad.method.Store("NewUnmounter")
		n.source.RemovePod("1")
		time.Sleep(time.Minute)
		require.Equal(t, "uncertain", m.State().Volumes[0].Pods[0].State)
		stop()
		bad.method.Store("ConstructVolumeSpec")
		m, stop = n.run()
		time.Sleep(time.Minute)
		require.ErrorContains(t, m.State().Leftovers[0].Err, "panicked")
		require.Equal(t, 1, n.mountCount(), "it is not touched")
		stop()
		bad.method.Store("")
		m, stop = n.run()
		n.down(m, pod)
		stop()
	})
}

func (p *panicPlugin) Unwrap() volume.VolumePlugin { return nil }

func (p *panicPlugin) panicIn(method string) {
	if p.method.Load() == method {
		panic(method)
	}
}

func (p *panicPlugin) GetVolumeName(spec *volume.Spec) (string, error) {
	p.panicIn("GetVolumeName")
	return p.FakePlugin.GetVolumeName(spec)
}

func (p *panicPlugin) CanAttach(ctx context.Context, spec *volume.Spec) (bool, error) {
	p.panicIn("CanAttach")
	return p.FakePlugin.CanAttach(context.Background(), spec)
}

func (p *panicPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	p.panicIn("NewMounter")
	return p.FakePlugin.NewMounter(spec, pod)
}

func (p *panicPlugin) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	p.panicIn("NewUnmounter")
	return p.FakePlugin.NewUnmounter(name, pod)
}

func (p *panicPlugin) ConstructVolumeSpec(ctx context.Context, name, path string) (volume.ReconstructedVolume, error) {
	p.panicIn("ConstructVolumeSpec")
	return p.FakePlugin.ConstructVolumeSpec(ctx, name, path)
}
