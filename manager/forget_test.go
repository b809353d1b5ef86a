package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

// What failed of a volume that has another name by now is forgotten, and nothing of what is
// there.
func TestForgetOtherNames(t *testing.T) {
	l := &loop{Manager: &Manager{world: newWorld()}}
	l.have.put(vol, having(aDisk, present, present, map[podKey]state{podA: uncertain}))
	stays := []operation{{tearDown, vol, podA}, {unmountDevice, vol, podKey{}}, {detach, vol, podKey{}}}
	const other = v1.UniqueVolumeName("plugin/other")
	goes := []operation{{tearDown, vol, podB}, {tearDown, other, podA}, {unmountDevice, other, podKey{}}, {detach, other, podKey{}}, {setUp, vol, podB}}
	want := map[operation]attempt{}
	for _, op := range stays {
		want[op] = attempt{}
	}
	for _, op := range append(goes, stays...) {
		l.retry[op] = attempt{}
	}
	l.forgetFailures()
	require.Equal(t, want, l.retry)
}
