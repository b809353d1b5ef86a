package attach

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// TestExclusive: a volume is for one node unless one of its modes allows many.
func TestExclusive(t *testing.T) {
	const once, oncePod, readOnly, many = v1.ReadWriteOnce, v1.ReadWriteOncePod, v1.ReadOnlyMany, v1.ReadWriteMany
	for _, test := range []struct {
		modes []v1.PersistentVolumeAccessMode
		want  bool
	}{
		{nil, false},
		{[]v1.PersistentVolumeAccessMode{once}, true},
		{[]v1.PersistentVolumeAccessMode{oncePod}, true},
		{[]v1.PersistentVolumeAccessMode{once, oncePod}, true},
		{[]v1.PersistentVolumeAccessMode{readOnly}, false},
		{[]v1.PersistentVolumeAccessMode{many}, false},
		{[]v1.PersistentVolumeAccessMode{once, readOnly}, false},
		{[]v1.PersistentVolumeAccessMode{once, many}, false},
	} {
		pv := &v1.PersistentVolume{Spec: v1.PersistentVolumeSpec{AccessModes: test.modes}}
		require.Equal(t, test.want, isExclusive(pv), fmt.Sprint(test.modes))
	}
}
