package beneath

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// deepWay returns a stack that has descended into d/d/d/... until its uppermost d is closed,
// and has returned until that d is the next directory above.
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
		if i == 0 { // one entry is read and taken before the descent
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

// throughParents disables opening by handle for a test.
func throughParents(t *testing.T) {
	WithoutHandles = true
	t.Cleanup(func() { WithoutHandles = false })
}

// TestOpenAbove: the directory above is reopened at its next unread entry.
func TestOpenAbove(t *testing.T) {
	t.Run("by handle", testOpenAbove)
	t.Run("through its parent", func(t *testing.T) {
		throughParents(t)
		testOpenAbove(t)
	})
}

func testOpenAbove(t *testing.T) {
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

// TestOpenAboveOfAnother: the directory at ".." is verified. Another directory in its place,
// a later one with the same inode number, and the same one in another mount are refused.
func TestOpenAboveOfAnother(t *testing.T) {
	throughParents(t)
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

// TestOpenByHandle: a closed directory is reopened wherever it has been moved, as if its
// descriptor had stayed open. A directory that only has its inode number, or is in another
// mount, is refused.
func TestOpenByHandle(t *testing.T) {
	for what, test := range map[string]struct {
		change func(t *testing.T, dir string, above *Place)
		moved  bool
	}{
		"same": {change: func(*testing.T, string, *Place) {}},
		"renamed": {change: func(t *testing.T, dir string, _ *Place) {
			require.NoError(t, os.Rename(dir+"/root/d", dir+"/root/e"))
			require.NoError(t, os.Mkdir(dir+"/root/d", 0o755))
		}},
		"moved out": {change: func(t *testing.T, dir string, _ *Place) {
			require.NoError(t, os.Mkdir(dir+"/outside", 0o755))
			require.NoError(t, os.Rename(dir+"/root/d/d", dir+"/outside/d"))
		}},
		"another":   {func(_ *testing.T, _ string, above *Place) { above.Inode++ }, true},
		"its inode": {func(_ *testing.T, _ string, above *Place) { above.Born.Nsec++ }, true},
		"its mount": {func(_ *testing.T, _ string, above *Place) { above.Mount++ }, true},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			s := deepWay(t, dir+"/root")
			want := s.Frames[1].Place
			fd, ok := s.openByHandle(s.Frames[1])
			if !ok {
				mounttest.SkipWithout(t, "handles", "open_by_handle_at")
			}
			require.NoError(t, unix.Close(fd))
			test.change(t, dir, &s.Frames[1].Place)
			err := s.OpenAbove()
			if test.moved {
				require.ErrorIs(t, err, ErrMoved)
				return
			}
			require.NoError(t, err)
			at, err := Identify(s.Frames[1].FD)
			require.NoError(t, err)
			require.Equal(t, want, at)
		})
	}
}
