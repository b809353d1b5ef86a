package registration

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/csi"
)

// TestRegistryPrefersTheNewestSocket: in each order of registrations and removals.
func TestRegistryPrefersTheNewestSocket(t *testing.T) {
	var r registry
	claim := func(age uint64) *registered {
		return &registered{Driver: csi.Driver{Name: driverName, Endpoint: "/" + string(rune('a'+age))}, age: age}
	}
	effective := func() (age, registration uint64) {
		c, ok := r.effective(driverName)
		require.Equal(t, c.age != 0, ok)
		return c.age, c.Registration
	}
	old, middle, newest := claim(1), claim(2), claim(3)
	r.put(newest)
	_, first := effective()
	r.put(old)
	r.put(middle)
	age, registration := effective()
	require.EqualValues(t, 3, age)
	require.Equal(t, first, registration, "an older socket changes nothing")
	r.remove(middle)
	age, registration = effective()
	require.EqualValues(t, 3, age)
	require.Equal(t, first, registration)
	r.remove(newest)
	age, registration = effective()
	require.EqualValues(t, 1, age)
	require.Greater(t, registration, first)
	r.put(claim(1))
	age, second := effective()
	require.EqualValues(t, 1, age)
	require.Greater(t, second, registration, "a socket is registered again")
	require.Len(t, r.claims[driverName], 1)
	r.remove(old)
	age, _ = effective()
	require.EqualValues(t, 1, age, "a replaced claim is no longer there")
	r.remove(r.claims[driverName][0])
	age, _ = effective()
	require.Zero(t, age)
	require.Empty(t, r.claims)
}
