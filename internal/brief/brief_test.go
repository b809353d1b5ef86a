package brief_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/brief"
)

func TestShorten(t *testing.T) {
	require.NoError(t, brief.Of(nil))
	short := errors.New("short")
	require.Same(t, short, brief.Of(short))

	long := strings.Repeat("ä", 1<<20)
	err := brief.Of(fmt.Errorf("open %s: %w", long, fs.ErrNotExist))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.LessOrEqual(t, len(err.Error()), brief.Longest)
	require.True(t, strings.HasPrefix(err.Error(), "open ä"))
	require.True(t, strings.HasSuffix(err.Error(), "ä: file does not exist"))
	require.Contains(t, err.Error(), "ä...ä")

	err = brief.Of(&fs.PathError{Op: "open", Path: long, Err: fs.ErrNotExist})
	require.True(t, os.IsNotExist(err))
	require.Less(t, len(err.Error()), 2*brief.Longest)
	err = brief.Of(&fs.PathError{Op: "open", Path: "x", Err: fmt.Errorf("%s: %w", long, fs.ErrNotExist)})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Less(t, len(err.Error()), 2*brief.Longest)
}

func TestName(t *testing.T) {
	require.Equal(t, "data", brief.Name("data"))
	require.Equal(t, strings.Repeat("a", 127)+"...", brief.Name(strings.Repeat("a", 127)+"ä"), "no half of a character")
}
