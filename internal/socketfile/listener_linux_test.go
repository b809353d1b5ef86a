package socketfile

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
)

// serve answers each connection with the text until the listener is closed.
func serve(t *testing.T, path string, replace bool, text string) *Listener {
	t.Helper()
	l, err := Listen(path, replace)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answerWith(l, text)
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return l
}

// answerWith answers each connection with the text until the listener is closed.
func answerWith(l *Listener, text string) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
}

// answer returns the answer of the process that serves a socket, or "".
func answer(path string) string {
	dir, err := os.Open(filepath.Dir(path)) // the path may be too long for a socket
	if err != nil {
		return ""
	}
	defer func() { _ = dir.Close() }()
	conn, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d", dir.Fd())+"/"+filepath.Base(path))
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	text, _ := io.ReadAll(conn)
	return string(text)
}

func requireAnswer(t *testing.T, path, text string) {
	t.Helper()
	require.Eventually(t, func() bool { return answer(path) == text }, time.Minute, time.Millisecond)
	info, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSocket|0o600, info.Mode())
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no hidden socket is left")
}

// TestRemovedSocket: a socket that another process removes comes back, also with its directory.
func TestRemovedSocket(t *testing.T) {
	for _, name := range []string{"s", strings.Repeat("s", 20)} {
		dir := filepath.Join(t.TempDir(), "sockets")
		require.NoError(t, os.Mkdir(dir, 0o755))
		path := filepath.Join(dir, name)
		l := serve(t, path, false, "first")
		requireAnswer(t, path, "first")
		for range 3 {
			require.NoError(t, os.Remove(path))
			requireAnswer(t, path, "first")
		}
		require.NoError(t, os.Rename(path, path+"-away"))
		require.Eventually(t, func() bool { return answer(path) == "first" }, time.Minute, time.Millisecond)
		for range 2 {
			require.NoError(t, os.RemoveAll(dir))
			time.Sleep(10 * time.Millisecond)
			require.NoError(t, os.Mkdir(dir, 0o755))
			requireAnswer(t, path, "first")
		}
		require.NoError(t, l.Close())
		require.NoFileExists(t, path)
		require.ErrorIs(t, l.Close(), net.ErrClosed)
		time.Sleep(2 * restorePause)
		require.NoFileExists(t, path)
	}
}

// TestLongPath: the longest path of a socket has room for the hidden name.
func TestLongPath(t *testing.T) {
	dir := t.TempDir()
	dir = filepath.Join(dir, strings.Repeat("d", Longest-len(dir)-len("//s")))
	require.NoError(t, os.Mkdir(dir, 0o755))
	path := dir + "/s"
	require.Len(t, path, Longest)
	serve(t, path, false, "long")
	requireAnswer(t, path, "long")
}

// TestSocketOfAnother: the socket of another process stays, also after Close. When it goes, that of the listener that
// still runs is back.
func TestSocketOfAnother(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	old := serve(t, path, false, "old")
	_, err := Listen(path, false)
	require.ErrorIs(t, err, fs.ErrExist)
	next := serve(t, path, true, "new")
	requireAnswer(t, path, "new")
	time.Sleep(2 * restorePause)
	requireAnswer(t, path, "new")
	require.NoError(t, next.Close())
	requireAnswer(t, path, "old")
	next = serve(t, path, true, "new")
	require.NoError(t, old.Close())
	requireAnswer(t, path, "new")
	require.NoError(t, next.Close())
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = Listen(path, true)
	require.ErrorContains(t, err, "not a socket")
	require.FileExists(t, path)
}

// TestRestoreFails: a failure is retried after pauses that grow, also if the directory does not change.
func TestRestoreFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sockets")
	require.NoError(t, os.Mkdir(dir, 0o755))
	path := filepath.Join(dir, "s")
	l := serve(t, path, false, "text")
	var log testbed.Buffer
	l.LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	protect := func(on bool) { require.NoError(t, os.Chmod(dir, map[bool]os.FileMode{true: 0o555, false: 0o755}[on])) }
	if os.Geteuid() == 0 {
		protect = func(on bool) { testbed.Protect(t, dir, map[bool]int{true: testbed.Immutable}[on]) }
	}
	require.NoError(t, os.Remove(path))
	protect(true)
	t.Cleanup(func() { protect(false) })
	failures := func() int { return strings.Count(log.String(), "a new one failed") }
	require.Eventually(t, func() bool { return failures() >= 3 }, time.Minute, time.Millisecond)
	require.Less(t, failures(), 10)
	protect(false)
	requireAnswer(t, path, "text")
}

// TestFirstMoment: at no moment the socket is accessible to others.
func TestFirstMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for range 20 {
		seen := make(chan fs.FileMode)
		go func() {
			for {
				if info, err := os.Lstat(path); err == nil {
					seen <- info.Mode().Perm()
					return
				}
			}
		}()
		l, err := Listen(path, false)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), <-seen)
		require.NoError(t, l.Close())
	}
}
