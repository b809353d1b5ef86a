package failure

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAsUncertain(t *testing.T) {
	require.NoError(t, AsUncertain(nil))
	err := AsUncertain(fs.ErrClosed)
	require.EqualError(t, err, fs.ErrClosed.Error())
	require.ErrorIs(t, err, fs.ErrClosed)
	require.ErrorIs(t, err, ErrUncertain)
	require.NotErrorIs(t, fs.ErrClosed, ErrUncertain)
}
