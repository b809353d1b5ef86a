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
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// maxLatency limits the time from the end of a context to the return of the call.
const maxLatency = 100 * time.Millisecond

// TestReturnLatency measures how long each method takes to return after the end of its
// context if the file system does not answer. The quickest of several runs counts: a busy
// machine delays some runs, a wait in the code delays each of them. With -v the test
// logs all runs:
//
//	VOLUMEKIT_REQUIRE=timing go test -v -run TestReturnLatency ./mount
func TestReturnLatency(t *testing.T) {
	testbed.RealTime(t)
	for name, measure := range map[string]func(t *testing.T) []latencies{
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
			logLatencies(t, measure(t))
		})
	}
}

// latencies holds, for each run of a call, the time from the end of the context to the return of
// the call; 0 if the call returned before.
type latencies struct {
	name    string
	samples []time.Duration
}

// A timedCall is a call about a file system that hangs.
type timedCall struct {
	fs   *fuseFS
	call func(ctx context.Context) error
	// stuck reports whether the call waits for an answer of the file system. It is nil for a
	// call that returns without one.
	waits func() bool
	want  error  // the expected error
	after func() // reverts the call, when the file system answers again
}

// measure repeats a call several times. As long as a slow machine delays all runs, it
// repeats the call many times, and for at least a minute.
func measure(t *testing.T, name string, next func() timedCall) latencies {
	t.Helper()
	m := latencies{name: name}
	enough, many := 10, 40
	if testing.Short() {
		enough = 3
	}
	for giveUp := time.Now().Add(time.Minute); ; {
		m.samples = append(m.samples, next().latency(t))
		quick := slices.Min(m.samples) < maxLatency
		if quick && len(m.samples) >= enough {
			return m
		}
		require.True(t, quick || len(m.samples) < many || time.Now().Before(giveUp), "%s returns too late in each run: %v", name, m.samples)
	}
}

// newWaitingCall returns a run of a call that waits for an answer of the file system.
func newWaitingCall(fs *fuseFS, call func(ctx context.Context) error) timedCall {
	return timedCall{fs: fs, call: call, waits: func() bool { return fs.heldRequests() > 0 }, want: context.Canceled}
}

// latency makes the call, ends its context when the call waits for the file system, and returns
// the time from the end of the context to the return of the call.
func (r timedCall) latency(t *testing.T) (late time.Duration) {
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
	if r.waits != nil {
		waitUntil(t, "the call sends no request to the file system", r.waits)
		require.Empty(t, returned, "the call returns without an answer")
		end = time.Now()
		cancel()
	}
	waitUntil(t, "the call does not return", func() bool { return len(returned) > 0 })
	got := <-returned
	require.ErrorIs(t, got.err, r.want)
	r.fs.release()
	if r.after != nil {
		r.after()
	}
	// The next run must not wait for a call of this run.
	waitUntil(t, "a goroutine of the call remains", func() bool { return runtime.NumGoroutine() <= goroutines })
	if r.waits == nil {
		return 0
	}
	return got.at.Sub(end)
}

// waitUntil polls done for up to a minute, and fails with what. It starts no goroutine.
func waitUntil(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !done(); time.Sleep(200 * time.Microsecond) {
		require.True(t, time.Now().Before(end), what)
	}
}

// measureHung measures each method at a mount point of a hung file system, and inside it.
func measureHung(t *testing.T) (all []latencies) {
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, nil)
	calls := fsCalls(t, mount.New(mount.Config{}), brokenFS{path: path, source: "hung"})
	for _, name := range slices.Sorted(maps.Keys(calls)) {
		call := calls[name]
		all = append(all, measure(t, name, func() timedCall {
			if call.needsAnswer {
				return newWaitingCall(fs, call.call)
			}
			return timedCall{fs: fs, call: call.call, want: call.want, after: func() { call.undoChange(t) }}
		}))
	}
	return all
}

// unmounts are the methods that unmount.
var unmounts = map[string]func(*mount.Mounter, context.Context, string) error{
	"unmount":      (*mount.Mounter).Unmount,
	"unmount tree": (*mount.Mounter).UnmountTree,
}

// measureBusy measures unmounts of a busy mount.
func measureBusy(t *testing.T) (all []latencies) {
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, nil)
	holdBusy(t, path)
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Hour}})
	for name, unmount := range unmounts {
		all = append(all, measure(t, name, func() timedCall {
			return newWaitingCall(fs, func(ctx context.Context) error { return unmount(m, ctx, path) })
		}))
	}
	return all
}

// measureNotEnded measures unmounts of a file system whose end needs an answer of its server.
func measureNotEnded(t *testing.T) (all []latencies) {
	m := mount.New(mount.Config{})
	for name, unmount := range unmounts {
		all = append(all, measure(t, name, func() timedCall {
			dir := mkdirs(t, "hung")
			fs := mountFUSEOn(t, newEmptyDevice(t, dir+"/image"), dir+"/hung", "fuseblk", nil)
			_, err := os.Stat(dir + "/hung") // waits for the initialization
			require.NoError(t, err)
			return newWaitingCall(fs, func(ctx context.Context) error { return unmount(m, ctx, dir+"/hung") })
		}))
	}
	return all
}

func newEmptyDevice(t *testing.T, image string) string {
	t.Helper()
	require.NoError(t, os.WriteFile(image, make([]byte, 1<<20), 0o600))
	return loopDevice(t, image)
}

// measureDevice measures mounts of a file system on a device that does not answer.
func measureDevice(t *testing.T) []latencies {
	dir := mkdirs(t, "hung", "target")
	fs := mountFUSE(t, dir+"/hung", make([]byte, 1<<20))
	m := mount.New(mount.Config{})
	return []latencies{measure(t, "mount", func() timedCall {
		// A new loop device each time: a device caches blocks.
		req := mount.Request{Source: loopDevice(t, dir+"/hung/disk"), FSType: "ext4", Target: dir + "/target"}
		return newWaitingCall(fs, func(ctx context.Context) error { return m.Mount(ctx, req) })
	})}
}

// measureLocked measures a mount on a directory that the kernel has locked for a lookup in a
// hung file system.
func measureLocked(t *testing.T) []latencies {
	path := mkdirs(t, "hung") + "/hung"
	fs := mountFUSE(t, path, nil)
	root, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(root) })
	m := mount.New(mount.Config{})
	req := mount.Request{Source: "top", FSType: "tmpfs", Target: path, Stack: true}
	return []latencies{measure(t, "mount", func() timedCall {
		fs.hang()
		lookupDone := make(chan struct{})
		go func() {
			defer close(lookupDone)
			var stat unix.Stat_t
			_ = unix.Fstatat(root, "x", &stat, 0)
		}()
		waitUntil(t, "the lookup sends no request", func() bool { return fs.heldRequests() > 0 })
		begin := time.Now()
		return timedCall{
			fs: fs, want: context.Canceled,
			call: func(ctx context.Context) error { return m.Mount(ctx, req) },
			// No event shows that the call waits for a lock.
			waits: func() bool { return time.Since(begin) > 20*time.Millisecond },
			after: func() {
				<-lookupDone
				require.NoError(t, m.Mount(t.Context(), req), "the first call has ended")
				for entryAt(t, m, path).FSType == "tmpfs" {
					unmountEventually(t, m, path)
				}
			},
		}
	})}
}

// logLatencies logs a table of the latencies.
func logLatencies(t *testing.T, all []latencies) {
	t.Helper()
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "ms after the end of the context\truns\tmin\tmedian\tmax\t")
	for _, m := range all {
		late := slices.Sorted(slices.Values(m.samples))
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t\n", m.name, len(late), milliseconds(late[0]), milliseconds(late[len(late)/2]), milliseconds(late[len(late)-1]))
	}
	require.NoError(t, w.Flush())
	t.Logf("\n%s", text.String())
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f", float64(d)/float64(time.Millisecond))
}
