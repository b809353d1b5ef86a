package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
)

// A lyingSource answers whatever it likes about what is called "bad".
type lyingSource struct {
	*manager.MemorySource
	claim func(*v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim
	pv    func(*v1.PersistentVolume) *v1.PersistentVolume
}

func (s lyingSource) PersistentVolumeClaim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	claim, err := s.MemorySource.PersistentVolumeClaim(ctx, namespace, name)
	if name == "bad" && s.claim != nil {
		claim = s.claim(claim.DeepCopy())
	}
	return claim, err
}

func (s lyingSource) PersistentVolume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	pv, err := s.MemorySource.PersistentVolume(ctx, name)
	if name == "bad" && s.pv != nil {
		pv = s.pv(pv.DeepCopy())
	}
	return pv, err
}

// What a source says that cannot be is the error of the one volume, whose pod's others come
// up.
func TestLyingSource(t *testing.T) {
	named := func(name string) func(*v1.PersistentVolume) *v1.PersistentVolume {
		return func(pv *v1.PersistentVolume) *v1.PersistentVolume {
			pv.Name = name
			return pv
		}
	}
	for name, test := range map[string]struct {
		lies lyingSource
		says string
	}{
		"no claim and no error":  {lyingSource{claim: func(*v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim { return nil }}, "panicked"},
		"no volume and no error": {lyingSource{pv: func(*v1.PersistentVolume) *v1.PersistentVolume { return nil }}, "panicked"},
		"an empty claim": {lyingSource{claim: func(*v1.PersistentVolumeClaim) *v1.PersistentVolumeClaim {
			return &v1.PersistentVolumeClaim{}
		}}, "no volume yet"},
		"an empty volume": {lyingSource{pv: func(*v1.PersistentVolume) *v1.PersistentVolume { return &v1.PersistentVolume{} }}, "not bound"},
		"a way up":        {lyingSource{pv: named("..")}, "volume.name"},
		"a way down":      {lyingSource{pv: named("a/b")}, "volume.name"},
		"no name":         {lyingSource{pv: named("")}, "volume.name"},
		"nothing behind it": {lyingSource{pv: func(pv *v1.PersistentVolume) *v1.PersistentVolume {
			pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{}
			return pv
		}}, "no volume plugin matched"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, own)
				n.claim("good")
				n.claim("bad")
				test.lies.MemorySource = n.source
				n.config.Source = test.lies
				m, stop := n.run()
				defer stop()
				pod := podWith("1", "bad", "good")
				n.source.SetPod(pod)
				time.Sleep(time.Hour)
				var failed *manager.WaitError
				require.ErrorAs(t, m.WaitForAttachAndMount(ended(t), pod), &failed)
				require.Len(t, failed.Volumes, 1)
				require.Equal(t, "v0", failed.Volumes[0].Name)
				require.ErrorContains(t, failed.Volumes[0].Err, test.says)
				require.Equal(t, 1, n.mounts())
				n.source.RemovePod("1")
				n.down(m, pod)
				require.Zero(t, n.mounts())
			})
		})
	}
}
