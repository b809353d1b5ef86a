package util

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

func specWithMode(mode *v1.PersistentVolumeMode) *volume.Spec {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	pv.Spec.VolumeMode = mode
	return volume.NewSpecFromPersistentVolume(pv, false)
}

func TestVolumeMode(t *testing.T) {
	files, block := v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock
	hostile := v1.PersistentVolumeMode(strings.Repeat("x", 10_000))
	for name, test := range map[string]struct {
		spec *volume.Spec
		want v1.PersistentVolumeMode // empty: refused
	}{
		"not said":    {specWithMode(nil), files},
		"file system": {specWithMode(&files), files},
		"block":       {specWithMode(&block), block},
		"in a pod":    {volume.NewSpecFromVolume(&v1.Volume{Name: "v"}), files},
		"nil":         {nil, ""},
		"empty":       {&volume.Spec{}, ""},
		"hostile":     {specWithMode(&hostile), ""},
	} {
		t.Run(name, func(t *testing.T) {
			mode, err := GetVolumeMode(test.spec)
			require.Equal(t, test.want, mode)
			isFiles, checkErr := CheckVolumeModeFilesystem(test.spec)
			require.Equal(t, err, checkErr)
			require.Equal(t, test.want == files, isFiles)
			if test.want != "" {
				require.NoError(t, err)
				return
			}
			var refused *field.Error
			require.ErrorAs(t, err, &refused)
			require.Less(t, len(err.Error()), 512)
		})
	}
}
