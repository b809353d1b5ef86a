package waiters

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// TestWaitersAreWokenForTheirPod: a waiter is woken for its pod, once until it receives, and for any pod without
// a UID; a removed waiter is not woken.
func TestWaitersAreWokenForTheirPod(t *testing.T) {
	var w Waiters
	one, other, any := w.Add("1"), w.Add("2"), w.Add("")
	woken := func() (names []string) {
		for name, c := range map[string]chan struct{}{"one": one, "other": other, "any": any} {
			select {
			case <-c:
				names = append(names, name)
			default:
			}
		}
		return names
	}
	w.Wake()
	require.Empty(t, woken())
	w.Wake("1")
	w.Wake("1")
	require.ElementsMatch(t, []string{"one", "any"}, woken())
	require.Empty(t, woken())
	w.WakeAll()
	require.ElementsMatch(t, []string{"one", "other", "any"}, woken())
	w.Remove("1", one)
	w.Remove("", any)
	w.Wake([]types.UID{"1", "2"}...)
	require.Equal(t, []string{"other"}, woken())
}
