package actual

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/naming"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestActualWorld: the indexes of directories and storage agree with the volumes.
func TestActualWorld(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var w World
	names := []v1.UniqueVolumeName{"a", "b", "c"}
	for range 5000 {
		v := &Volume{Plugin: "p", Name: []string{"x", "y"}[r.IntN(2)], Attached: State(r.IntN(2))}
		name := names[r.IntN(len(names))]
		if old := w.Volumes.Get(name); old != nil && r.IntN(2) == 0 {
			other := *old
			v = &other
		}
		for range r.IntN(3) {
			key := naming.PodKey{Pod: types.UID("p" + string(rune('a'+r.IntN(3)))), Name: string(name) + "-v"}
			v.Pods = v.Pods.With(key, &Pod{State: State(r.IntN(3))})
		}
		w.Put(name, v)
		requireConsistent(t, w)
	}
}

func requireConsistent(t *testing.T, w World) {
	t.Helper()
	dirs := map[naming.PodDir]v1.UniqueVolumeName{}
	stored := 0
	for name, v := range w.Volumes.All() {
		require.False(t, v.IsAbsent())
		require.Contains(t, w.Storage.Get(v.Storage()), name)
		for key, pod := range v.Pods.All() {
			if pod.State != Absent {
				dirs[v.DirOf(key)] = name
			}
		}
	}
	for _, at := range w.Storage.All() {
		stored += len(at)
	}
	require.Equal(t, stored, w.Volumes.Len())
	found := map[naming.PodDir]v1.UniqueVolumeName{}
	for dir, name := range w.Dirs.All() {
		require.Equal(t, name, w.Dirs.Get(dir))
		found[dir] = name
	}
	require.Equal(t, dirs, found)
}
