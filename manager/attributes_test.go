package manager_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// An attributesPlugin has volumes that are read-only for containers, like those of configMaps.
type attributesPlugin struct {
	*volumetest.FakePlugin
	attributes volume.Attributes
}

func (p attributesPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return attributesMounter{m, p.attributes}, err
}

type attributesMounter struct {
	volume.Mounter
	attributes volume.Attributes
}

func (m attributesMounter) GetAttributes() volume.Attributes { return m.attributes }

// TestMountedVolumeAttributes: the container runtime receives the attributes that the plugin returns for a
// volume, also after a restart.
func TestMountedVolumeAttributes(t *testing.T) {
	for name, attributes := range map[string]volume.Attributes{
		"nothing":   {},
		"read-only": {ReadOnly: true},
		"all":       {ReadOnly: true, Managed: true, SELinuxRelabel: true},
		"ownership": {Managed: true},
		"labels":    {SELinuxRelabel: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("a")
				var err error
				n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, attributesPlugin{n.plugin, attributes})
				require.NoError(t, err)
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				requireAttributes(t, m, attributes)
				stop()
				m, stop = n.run()
				defer stop()
				n.up(m, pod)
				requireAttributes(t, m, attributes)
			})
		})
	}
}

func requireAttributes(t *testing.T, m *manager.Manager, attributes volume.Attributes) {
	t.Helper()
	v := m.GetMountedVolumesForPod("1")["v0"]
	require.Equal(t, attributes, v.Attributes)
	require.Equal(t, attributes.ReadOnly, v.ReadOnly)
	require.Equal(t, attributes.ReadOnly, m.State().Volumes[0].Pods[0].ReadOnly)
}
