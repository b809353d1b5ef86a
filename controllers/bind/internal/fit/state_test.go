package fit_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/bind/internal/fit"
	v1 "k8s.io/api/core/v1"
)

// TestOlderState: a state of a volume that comes after a later one has no effect.
func TestOlderState(t *testing.T) {
	at := func(version, claim string) *v1.PersistentVolume {
		pv := newVolume("pv", "1Gi", rwo)
		pv.UID, pv.ResourceVersion = "1", version
		if claim != "" {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "ns", Name: claim}
		}
		return pv
	}
	var x fit.Index
	require.True(t, x.Set(at("9", "")))
	require.False(t, x.Set(at("11", "a")))
	require.False(t, x.Set(at("10", "")), "an older state")
	require.Equal(t, []string{"pv"}, x.Referring(key("a")))
	require.Empty(t, reserve(&x, newClaim("b", "1Gi", rwo)))
	require.True(t, x.Set(at("12", "")), "a newer state")

	again := at("2", "")
	again.UID = "2"
	require.True(t, x.Set(again), "another volume of the name")
	x.Delete("pv")
	require.True(t, x.Set(at("1", "")), "a volume that was deleted")
}

// TestSpacesEnd: the names of classes that claims have named leave no memory.
func TestSpacesEnd(t *testing.T) {
	var x fit.Index
	use := func(n int) {
		for i := range n {
			claim := newClaim("claim", "1Gi", rwo)
			class := fmt.Sprint("class-", i)
			claim.Spec.StorageClassName = &class
			require.Empty(t, reserve(&x, claim))
			x.StopWaiting(key("claim"))
		}
	}
	size := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	use(100)
	before := size()
	use(20_000)
	require.Less(t, size(), before+1<<20)
	runtime.KeepAlive(&x)
}
