package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// specOfLife is a volume of that name and UID; one that was found on disk has no UID.
func specOfLife(uid types.UID) *volume.Spec {
	return &volume.Spec{PersistentVolume: &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "vol", UID: uid}}}
}

// Once it may be the volume with the UID that is mounted, one made anew under its name is
// another, however the mounting ended, and whatever was known before.
func TestWhichVolumeMayBeMounted(t *testing.T) {
	for name, test := range map[string]struct {
		before    state
		err       error
		isAnother bool
	}{
		"mounted":                        {absent, nil, true},
		"mounted again":                  {uncertain, nil, true},
		"perhaps":                        {absent, volume.ErrUncertain, true},
		"perhaps, and what was found":    {uncertain, volume.ErrUncertain, true},
		"another is in its place":        {uncertain, volume.ErrAlreadyMounted, true},
		"not now, but what was found is": {uncertain, volume.ErrTransient, true},
		"not at all":                     {absent, volume.ErrNotSupported, false},
	} {
		t.Run(name, func(t *testing.T) {
			found := having(aDisk, present, test.before, nil)
			found.spec = specOfLife("")
			out := outcome{job: job{operation: operation{verb: mountDevice, volume: vol}, spec: specOfLife("one"), traits: aDisk}, err: test.err}
			p := planner{want: wanted(aDisk, podA), have: advance(found, out)}
			p.want.spec = specOfLife("two")
			require.Equal(t, test.isAnother, p.isAnother())
			require.Empty(t, found.spec.PersistentVolume.UID, "advance changed what was known before")
		})
	}
}
