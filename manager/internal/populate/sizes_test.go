package populate

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func storage(text string) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse(text)}
}

// TestRequestedSize: the requested size is the larger one of capacity and request, and the capacity
// alone if a controller expands volumes; a volume that is not
// written to, or has no size, is not grown.
func TestRequestedSize(t *testing.T) {
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	claim := &v1.PersistentVolumeClaim{}
	claim.Spec.Resources.Requests, claim.Status.Capacity = storage("2Gi"), storage("1Gi")
	for name, test := range map[string]struct {
		capacity  v1.ResourceList
		claim     *v1.PersistentVolumeClaim
		readOnly  bool
		populator Populator
		size, has string
	}{
		"request":    {storage("1Gi"), claim, false, Populator{}, "2Gi", "1Gi"},
		"capacity":   {storage("3Gi"), claim, false, Populator{}, "3Gi", "1Gi"},
		"controller": {storage("1Gi"), claim, false, Populator{ControllerExpands: true}, "1Gi", "1Gi"},
		"no claim":   {storage("3Gi"), nil, false, Populator{}, "3Gi", "<nil>"},
		"no size":    {nil, &v1.PersistentVolumeClaim{}, false, Populator{}, "<nil>", "<nil>"},
		"read-only":  {storage("3Gi"), claim, true, Populator{}, "<nil>", "<nil>"},
	} {
		pv := plugin.NewSpec("disk", "/disk").PersistentVolume
		pv.Spec.Capacity = test.capacity
		size, has, err := test.populator.sizesOf(plugin, volume.NewSpecFromPersistentVolume(pv, test.readOnly), test.claim)
		require.NoError(t, err, name)
		require.Equal(t, test.size, size.String(), name)
		require.Equal(t, test.has, has.String(), name)
	}
}
