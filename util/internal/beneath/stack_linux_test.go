package beneath

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// deepWay is a way from dir into d/d/d/..., as deep as it takes for the uppermost d to be
// closed, and back up until that is next.
func deepWay(t *testing.T, dir string) *Stack[int] {
	t.Helper()
	const depth = Window + 1
	require.NoError(t, os.MkdirAll(dir+strings.Repeat("/d", depth), 0o755))
	for i := range 10 {
		require.NoError(t, os.WriteFile(dir+"/d/file"+strconv.Itoa(i), nil, 0o600))
	}
	frame := func(above *Frame[int], name string) *Frame[int] {
		fd, err := unix.Open(name, ToList, 0)
		require.NoError(t, err)
		at, err := Identify(fd)
		require.NoError(t, err)
		return &Frame[int]{Place: at, Above: above, Name: filepath.Base(name), FD: fd}
	}
	s := NewStack(frame(nil, dir))
	t.Cleanup(s.Drop)
	for i := range depth {
		s.Push(frame(s.Top(), dir+strings.Repeat("/d", i+1)))
		if i == 0 { // one has been read, and taken, when the way goes on down
			_, err := s.Top().Refill()
			require.NoError(t, err)
			_, ok := s.Top().Take()
			require.True(t, ok)
		}
	}
	require.Equal(t, -1, s.Frames[1].FD, "it is deep enough")
	for len(s.Frames) > 3 {
		s.Pop()
	}
	return &s
}

// TestOpenAbove: the directory above is opened again and read on where that ended.
func TestOpenAbove(t *testing.T) {
	s := deepWay(t, t.TempDir())
	for range 2 {
		require.NoError(t, s.OpenAbove())
	}
	s.Pop()
	more, err := s.Top().Refill()
	require.NoError(t, err)
	require.True(t, more)
	var names []string
	for e, ok := s.Top().Take(); ok; e, ok = s.Top().Take() {
		names = append(names, e.Name)
	}
	require.Len(t, names, 11-1)
}

// TestOpenAboveOfAnother: what ".." leads to is looked at. Neither another directory that
// is there by now, nor one that has got the same inode since, or the same one in another
// mount, is where the way has come from.
func TestOpenAboveOfAnother(t *testing.T) {
	for what, change := range map[string]func(t *testing.T, dir string, above *Place){
		"moved out": func(t *testing.T, dir string, _ *Place) {
			require.NoError(t, os.Mkdir(dir+"/outside", 0o755))
			require.NoError(t, os.Rename(dir+"/root/d/d", dir+"/outside/d"))
		},
		"another in its place": func(t *testing.T, dir string, _ *Place) {
			require.NoError(t, os.Rename(dir+"/root/d", dir+"/old"))
			require.NoError(t, os.Mkdir(dir+"/root/d", 0o755))
			require.NoError(t, os.Rename(dir+"/old/d", dir+"/root/d/d"))
		},
		"another":   func(_ *testing.T, _ string, above *Place) { above.Inode++ },
		"its inode": func(_ *testing.T, _ string, above *Place) { above.Born.Nsec++ },
		"its mount": func(_ *testing.T, _ string, above *Place) { above.Mount++ },
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			s := deepWay(t, dir+"/root")
			change(t, dir, &s.Frames[1].Place)
			before, err := os.ReadDir("/proc/self/fd")
			require.NoError(t, err)
			require.ErrorIs(t, s.OpenAbove(), ErrMoved)
			require.Equal(t, -1, s.Frames[1].FD)
			after, err := os.ReadDir("/proc/self/fd")
			require.NoError(t, err)
			require.Len(t, after, len(before))
		})
	}
}
