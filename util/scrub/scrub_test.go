package scrub

import (
	"context"
	"errors"
	"io/fs"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/progress"
)

func TestOptionsAreRefused(t *testing.T) {
	for _, test := range []struct {
		field   string
		options Options
	}{
		{"Keep", Options{Keep: []string{"fine", ""}}},
		{"Keep", Options{Keep: []string{"."}}},
		{"Keep", Options{Keep: []string{".."}}},
		{"Keep", Options{Keep: []string{"a/b"}}},
		{"Keep", Options{Keep: []string{"a\x00"}}},
		{"Keep", Options{Keep: []string{strings.Repeat("n", 256)}}},
		{"Workers", Options{Workers: -1}},
		{"Workers", Options{Workers: 1 << 20}},
		{"PerSecond", Options{PerSecond: -1}},
		{"Trash", Options{Trash: "../trash"}},
		{"Trash", Options{Trash: "lost+found"}},
		{"Trash", Options{Trash: "kept", Keep: []string{"kept"}}},
	} {
		var input *InputError
		require.ErrorAs(t, test.options.check(), &input, "%+v", test.options)
		require.Equal(t, test.field, input.Field)
		_, err := (&Root{}).Empty(t.Context(), test.options)
		require.ErrorAs(t, err, &input, "before anything is done")
	}
	require.NoError(t, Options{Keep: []string{"\xff", "..."}, Trash: ".trash", Workers: 3, PerSecond: 1}.check())
}

func TestRootsAreRefused(t *testing.T) {
	for _, name := range []string{"", "relative", "/", "//", "/.", "/a/../b", "/..", "/a\x00"} {
		_, err := Open(context.Background(), name)
		var input *InputError
		require.ErrorAs(t, err, &input, "%q", name)
		require.Equal(t, "path", input.Field)
	}
}

func TestOtherSystems(t *testing.T) {
	if runtime.GOOS == "linux" {
		t.Skip("this is Linux")
	}
	_, err := Open(context.Background(), t.TempDir())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestErrorsAreShort(t *testing.T) {
	err := &UnremovableError{beneath.Failures{Root: "/vol", Count: 70, Entries: []beneath.Failure{
		{Path: "a\n\xff", Err: fs.ErrPermission}, {Path: strings.Repeat("d/", 1<<20), Err: fs.ErrExist},
	}}}
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorIs(t, err, fs.ErrExist)
	require.Less(t, len(err.Error()), 500)
	require.True(t, strings.HasPrefix(err.Error(),
		`scrub "/vol": 70 entries could not be removed: "a\n\xff" (permission denied), "d/d/`), err.Error())
	require.True(t, strings.HasSuffix(err.Error(), " and 68 more"), err.Error())

	left := &NotEmptyError{Root: "/vol", Names: []string{"a", "b"}, Count: 2}
	require.Equal(t, `scrub "/vol": 2 entries are left: "a", "b"`, left.Error())
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		l := newLimiter(100)
		for range 1000 {
			require.NoError(t, l.wait(t.Context()))
		}
		require.InDelta(t, 10, time.Since(begin).Seconds(), 0.1)

		time.Sleep(time.Hour)
		require.NoError(t, l.wait(t.Context()))
		begin = time.Now()
		for range 100 {
			require.NoError(t, l.wait(t.Context()))
		}
		require.InDelta(t, 1, time.Since(begin).Seconds(), 0.1, "what was not used is not made up for")

		cause := errors.New("cause")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		err := waitOften(ctx, l)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
	})
	require.NoError(t, newLimiter(0).wait(t.Context()))
}

func waitOften(ctx context.Context, l *limiter) (err error) {
	for range 10 {
		err = errors.Join(err, l.wait(ctx))
	}
	return err
}

// fakeRoot returns a Root without a directory, for tests of turns.
func fakeRoot() *Root { return &Root{path: "/vol", dir: -1, turn: make(chan struct{}, 1)} }

// TestProgress: the entries removed so far are reported.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		ctx := progress.With(t.Context(), func(r progress.Report) { seen = append(seen, r.String()) })
		_, err := fakeRoot().runRemoval(ctx, Options{}, func(_ context.Context, _ *Root, _ Options, tally *tally) error {
			for range 2 {
				tally.files.Add(1)
				tally.directories.Add(1)
				time.Sleep(time.Second + time.Millisecond)
			}
			return nil
		})
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"scrub /vol: 2 entries, 1s", "scrub /vol: 4 entries, 2s", "scrub /vol: 4 entries, ended after 2s"}, seen)
	})
}

// TestHungWork: the caller's context ends the call; the next call waits until the work has
// ended, and returns ErrBusy if its own context ends before.
func TestHungWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := fakeRoot()
		answer := make(chan struct{})
		hung := func(context.Context, *Root, Options, *tally) error {
			<-answer
			return nil
		}
		fine := func(context.Context, *Root, Options, *tally) error { return nil }

		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		begin := time.Now()
		_, err := r.runRemoval(ctx, Options{}, hung)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, ErrBusy)
		require.Less(t, time.Since(begin), 61*time.Second)

		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = r.runRemoval(ctx, Options{}, fine)
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = r.runRemoval(ctx, Options{}, fine)
		require.ErrorIs(t, err, context.DeadlineExceeded, "a context that has ended begins nothing")

		close(answer)
		_, err = r.runRemoval(t.Context(), Options{}, fine)
		require.NoError(t, err)
		_ = r.Close()
		require.NoError(t, r.Close(), "twice")
		_, err = r.runRemoval(t.Context(), Options{}, fine)
		require.ErrorIs(t, err, fs.ErrClosed)
	})
}
