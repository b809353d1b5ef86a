package mount_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// longest is how long a call may outlive its context.
const longest = 100 * time.Millisecond

// TestReturnsByContext measures how long after the end of its context each method
// returns that is about a file system which does not answer. The quickest of some
// runs counts: what a busy machine does to a run it does not do to each, and what
// the code waits for it waits for in each. The others are for the reader:
//
//	go test -v -run TestReturnsByContext ./mount
func TestReturnsByContext(t *testing.T) {
	for name, measure := range map[string]func(t *testing.T) []measured{
		"hung":         measureHung,
		"busy":         measureBusy,
		"not ended":    measureNotEnded,
		"device hangs": measureDevice,
		"locked":       measureLocked,
	} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			logMeasured(t, measure(t))
		})
	}
}

// measured is how long after the end of its context a call returned, run by run; 0
// if it did before.
type measured struct {
	name string
	late []time.Duration
}

// A run is a call about a file system that hangs.
type run struct {
	fs   *fuseFS
	call func(ctx context.Context) error
	// stuck tells that the call waits for what does not come; nil: it returns by
	// itself.
	stuck func() bool
	want  error  // what it returns
	after func() // what is to be done when the file system answers again
}

// measure runs a call some times; many times, and for a minute at least, as long as a
// slow machine delays all of them.
func measure(t *testing.T, name string, next func() run) measured {
	t.Helper()
	m := measured{name: name}
	enough, many := 10, 40
	if testing.Short() {
		enough = 3
	}
	for giveUp := time.Now().Add(time.Minute); ; {
		m.late = append(m.late, next().lateness(t))
		quick := slices.Min(m.late) < longest
		if quick && len(m.late) >= enough {
			return m
		}
		require.True(t, quick || len(m.late) < many || time.Now().Before(giveUp), "%s is always late: %v", name, m.late)
	}
}

// asks is a call that waits for an answer.
func asks(fs *fuseFS, call func(ctx context.Context) error) run {
	return run{fs: fs, call: call, stuck: func() bool { return fs.held() > 0 }, want: context.Canceled}
}

// lateness ends the context when the call is stuck, and tells how long after that it
// returns.
func (r run) lateness(t *testing.T) (late time.Duration) {
	t.Helper()
	goroutines := runtime.NumGoroutine()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	type result struct {
		at  time.Time
		err error
	}
	returned := make(chan result, 1)
	r.fs.hang()
	go func() {
		err := r.call(ctx)
		returned <- result{time.Now(), err}
	}()
	var end time.Time
	if r.stuck != nil {
		waitUntil(t, "it asks nothing", r.stuck)
		require.Empty(t, returned, "it does not wait")
		end = time.Now()
		cancel()
	}
	waitUntil(t, "it hangs", func() bool { return len(returned) > 0 })
	got := <-returned
	require.ErrorIs(t, got.err, r.want)
	r.fs.release()
	if r.after != nil {
		r.after()
	}
	// So that the next does not find anything stuck, and waits for that.
	waitUntil(t, "it goes on for ever", func() bool { return runtime.NumGoroutine() <= goroutines })
	if r.stuck == nil {
		return 0
	}
	return got.at.Sub(end)
}

// waitUntil waits without a goroutine.
func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(200 * time.Microsecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

// measureHung calls each method on a mount that hangs, and inside.
func measureHung(t *testing.T) (all []measured) {
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, nil)
	tries := triesOn(t, mount.New(mount.Config{}), sick{path: path, source: "hung"})
	for _, name := range slices.Sorted(maps.Keys(tries)) {
		try := tries[name]
		all = append(all, measure(t, name, func() run {
			if try.asks {
				return asks(fs, try.call)
			}
			return run{fs: fs, call: try.call, want: try.want, after: func() { try.takeBack(t) }}
		}))
	}
	return all
}

// unmounts are the methods that unmount.
var unmounts = map[string]func(*mount.Mounter, context.Context, string) error{
	"unmount":      (*mount.Mounter).Unmount,
	"unmount tree": (*mount.Mounter).UnmountTree,
}

// measureBusy unmounts what is in use.
func measureBusy(t *testing.T) (all []measured) {
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, nil)
	busy(t, path)
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
	for name, unmount := range unmounts {
		all = append(all, measure(t, name, func() run {
			return asks(fs, func(ctx context.Context) error { return unmount(m, ctx, path) })
		}))
	}
	return all
}

// measureNotEnded unmounts what has to answer as it ends.
func measureNotEnded(t *testing.T) (all []measured) {
	m := mount.New(mount.Config{})
	for name, unmount := range unmounts {
		all = append(all, measure(t, name, func() run {
			dir := mkdirs(t, "hung")
			fs := mountFUSEOn(t, emptyDevice(t, dir+"/image"), dir+"/hung", "fuseblk", nil)
			_, err := os.Stat(dir + "/hung") // it is initialised
			require.NoError(t, err)
			return asks(fs, func(ctx context.Context) error { return unmount(m, ctx, dir+"/hung") })
		}))
	}
	return all
}

func emptyDevice(t *testing.T, image string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	return loopDevice(t, image)
}

// measureDevice mounts what is on a device that does not answer.
func measureDevice(t *testing.T) []measured {
	dir := mkdirs(t, "hung", "target")
	fs := mountFUSE(t, dir+"/hung", make([]byte, 1<<20))
	m := mount.New(mount.Config{})
	return []measured{measure(t, "mount", func() run {
		// A new one each time: it remembers what it has read.
		req := mount.Request{Source: loopDevice(t, dir+"/hung/disk"), FSType: "ext4", Target: dir + "/target"}
		return asks(fs, func(ctx context.Context) error { return m.Mount(ctx, req) })
	})}
}

// measureLocked mounts on a directory that the kernel has locked, while its file
// system looks for a name in it.
func measureLocked(t *testing.T) []measured {
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, nil)
	root, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(root) })
	m := mount.New(mount.Config{})
	req := mount.Request{Source: "top", FSType: "tmpfs", Target: path, Stack: true}
	return []measured{measure(t, "mount", func() run {
		fs.hang()
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			var stat unix.Stat_t
			_ = unix.Fstatat(root, "x", &stat, 0)
		}()
		waitUntil(t, "it does not look", func() bool { return fs.held() > 0 })
		begin := time.Now()
		return run{
			fs: fs, want: context.Canceled,
			call: func(ctx context.Context) error { return m.Mount(ctx, req) },
			// Nothing tells that it waits for a lock.
			stuck: func() bool { return time.Since(begin) > 20*time.Millisecond },
			after: func() {
				<-looked
				require.NoError(t, m.Mount(t.Context(), req), "the first has ended")
				for tableAt(t, m, path).FSType == "tmpfs" {
					unmountSoon(t, m, path)
				}
			},
		}
	})}
}

// logMeasured logs a table.
func logMeasured(t *testing.T, all []measured) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ms after the end of the context\truns\tmin\tmedian\tmax\t")
	for _, m := range all {
		late := slices.Sorted(slices.Values(m.late))
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t\n", m.name, len(late), ms(late[0]), ms(late[len(late)/2]), ms(late[len(late)-1]))
	}
	require.NoError(t, w.Flush())
	t.Logf("\n%s", text.String())
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond)) }
