package util

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

type modes = []v1.PersistentVolumeAccessMode

func TestAccessModes(t *testing.T) {
	for name, test := range map[string]struct {
		indexed, requested modes
		want               bool
	}{
		"none of none": {nil, nil, true},
		"none of some": {modes{v1.ReadWriteOnce}, nil, true},
		"some of none": {nil, modes{v1.ReadWriteOnce}, false},
		"all":          {modes{v1.ReadWriteOnce, v1.ReadOnlyMany}, modes{v1.ReadOnlyMany, v1.ReadWriteOnce}, true},
		"not all":      {modes{v1.ReadWriteOnce}, modes{v1.ReadWriteOnce, v1.ReadWriteMany}, false},
		"no superset":  {modes{v1.ReadWriteMany}, modes{v1.ReadWriteOnce}, false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, AccessModesContainedInAll(test.indexed, test.requested))
		})
	}
}
