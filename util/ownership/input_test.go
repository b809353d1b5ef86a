package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadInput(t *testing.T) {
	group := id(1)
	for _, test := range []struct {
		dir   string
		o     Options
		field string
	}{
		{"", Options{}, "dir"},
		{"relative", Options{}, "dir"},
		{"/", Options{}, "dir"},
		{"//./", Options{}, "dir"},
		{"/a/../b", Options{}, "dir"},
		{"/a\x00b", Options{}, "dir"},
		{"/a", Options{User: id(-1)}, "User"},
		{"/a", Options{Group: id(-1)}, "Group"},
		{"/a", Options{Group: id(1<<32 - 1)}, "Group"},
		{"/a", Options{Group: id(1 << 40)}, "Group"},
		{"/a", Options{Group: group, Policy: 2}, "Policy"},
		{"/a", Options{Group: group, Policy: -1}, "Policy"},
		{"/a", Options{Group: group, Workers: -1}, "Workers"},
		{"/a", Options{Group: group, Workers: 1000}, "Workers"},
	} {
		counts, err := Apply(t.Context(), test.dir, test.o)
		var input *InputError
		require.ErrorAs(t, err, &input, "%q %+v", test.dir, test.o)
		require.Equal(t, test.field, input.Field)
		require.NotEmpty(t, input.Error())
		require.Zero(t, counts)
	}
}

// TestNothingToDo: without owners Apply does nothing, for any directory.
func TestNothingToDo(t *testing.T) {
	counts, err := Apply(t.Context(), "/does/not/exist", Options{ReadOnly: true})
	require.NoError(t, err)
	require.Zero(t, counts)
}
