package planning

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// specWithUID returns the specification of a persistent volume.
func specWithUID(uid types.UID, mode v1.PersistentVolumeMode) *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "vol", UID: uid}}
	pv.Spec.VolumeMode = &mode
	return volume.NewSpecFromPersistentVolume(pv, false)
}

// TestIsRecreated: an existing volume of another UID or mode is another volume. An unknown UID or
// specification is none.
func TestIsRecreated(t *testing.T) {
	one, file, block := specWithUID("one", v1.PersistentVolumeFilesystem), v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock
	for name, test := range map[string]struct {
		want, have  *volume.Spec
		device      actual.State
		isRecreated bool
	}{
		"the same":       {one, specWithUID("one", file), actual.Present, false},
		"another UID":    {one, specWithUID("two", file), actual.Present, true},
		"another mode":   {one, specWithUID("one", block), actual.Present, true},
		"uncertain":      {one, specWithUID("two", file), actual.Uncertain, true},
		"absent":         {one, specWithUID("two", file), actual.Absent, false},
		"unknown UID":    {one, specWithUID("", file), actual.Present, false},
		"no UID desired": {specWithUID("", file), one, actual.Present, false},
		"unknown":        {one, nil, actual.Present, false},
		"undesired":      {nil, one, actual.Present, false},
	} {
		p := Planner{Want: desiredVolume(diskTraits, podA), Have: actualVolume(diskTraits, actual.Absent, test.device, nil)}
		p.Want.Spec, p.Have.Spec = test.want, test.have
		require.Equal(t, test.isRecreated, p.IsRecreated(), name)
	}
}
