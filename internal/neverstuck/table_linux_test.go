package neverstuck

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/publicapi"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){testbed.FUSEProgram: testbed.ServeFUSE})
}

// A row prepares a call of one function while the file system still answers, and returns the
// call.
type row func(r *rig) (call func(ctx context.Context) error)

// TestEachFunctionHasARow: each function with a context has a row, or a line in inner.
func TestEachFunctionHasARow(t *testing.T) {
	covered := append(slices.Collect(maps.Keys(rows())), slices.Collect(maps.Keys(inner))...)
	for i, name := range covered {
		covered[i], _, _ = strings.Cut(name, " of ")
	}
	slices.Sort(covered)
	require.Equal(t, slices.Compact(publicapi.WithContext(t, repository)), slices.Compact(covered))
	for name := range withoutRequest {
		require.Contains(t, rows(), name)
	}
}

const (
	// given is the timeout of each call.
	given = 20 * time.Millisecond
	// stuck is the time after which the test gives a call up. It is no measure: a call that
	// returns at all does so long before, also on a busy machine.
	stuck = 10 * time.Second
	// promised is the time within which a call returns after the end of its context.
	promised = 100 * time.Millisecond
	// attempts is the number of attempts of which one has to keep the promise.
	attempts = 10
)

// The file system that hangs, and when.
const (
	hungRoot   = "root"   // that of the host's root, while volumes are set up
	hungSource = "source" // that of the volumes' sources, before the volumes are set up
	hungVolume = "volume" // that of the volumes' sources, while the volumes are set up
)

// TestNeverStuck calls each function three times while a file system hangs. Each call returns
// within 100 ms after the end of its context, and the repetitions leave no further requests
// behind. The file system receives a request of each function that withoutRequest does not list.
func TestNeverStuck(t *testing.T) {
	testbed.RealTime(t)
	if !mounttest.RootNamespace(t) {
		return
	}
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	base := testbed.Tmpfs(t, testbed.Dir(t))
	all := rows()
	maps.DeleteFunc(all, isOfLoop)
	var report report
	report.run(t, all, func(suffix string, rows map[string]row) {
		var benches sync.WaitGroup
		for _, hangs := range []string{hungRoot, hungSource, hungVolume} {
			for _, names := range []string{testbed.Cold, testbed.Warm} {
				for part := range benchesEach {
					b := newBench(t, base, fmt.Sprintf("%s-%s-%d%s", hangs, names, part, suffix), &report)
					b.hangs, b.names = hangs, names
					benches.Go(func() { b.run(t, rows, part) })
				}
			}
		}
		benches.Wait()
	})
}

// TestNeverStuckLoop is TestNeverStuck for loop devices, which all tests of the machine share:
// a list queries those of other tests, too, so requests are not counted.
func TestNeverStuckLoop(t *testing.T) {
	testbed.RealTime(t)
	if !mounttest.RootNamespace(t) {
		return
	}
	base := testbed.Tmpfs(t, testbed.Dir(t))
	all := rows()
	maps.DeleteFunc(all, func(name string, r row) bool { return !isOfLoop(name, r) })
	var report report
	report.run(t, all, func(suffix string, rows map[string]row) {
		for _, names := range []string{testbed.Cold, testbed.Warm} {
			for part := range benchesEach {
				b := newBench(t, base, fmt.Sprintf("%s-%d%s", names, part, suffix), &report)
				b.hangs, b.names, b.uncounted = hungSource, names, true
				b.run(t, rows, part)
			}
		}
	})
}

func isOfLoop(name string, _ row) bool { return strings.HasPrefix(name, "util/loop.") }

// benchesEach is the number of file systems that share the rows of one kind.
const benchesEach = 3

// A bench runs rows on a file system, one after the other.
type bench struct {
	dir, hangs, names string
	uncounted         bool // requests
	fuse              *testbed.FUSE
	report            *report
}

func newBench(t *testing.T, base, name string, r *report) *bench {
	b := &bench{dir: filepath.Join(base, name), report: r}
	require.NoError(t, os.MkdirAll(filepath.Join(b.dir, "hung"), 0o755))
	return b
}

func (b *bench) run(t *testing.T, all map[string]row, part int) {
	t.Run(filepath.Base(b.dir), func(t *testing.T) {
		b.fuse = testbed.MountFUSE(t, filepath.Join(b.dir, "hung"), b.names)
		for i, name := range slices.Sorted(maps.Keys(all)) {
			if i%benchesEach == part {
				t.Run(name, func(t *testing.T) { b.try(t, name, all[name]) })
			}
		}
	})
}

// try makes attempts until one is prompt: on a busy machine a single one may be late by the
// machine's doing.
func (b *bench) try(t *testing.T, name string, prepare row) {
	var quickest time.Duration
	for attempt := range attempts {
		late := b.attempt(t, name, prepare)
		if attempt == 0 || late < quickest {
			quickest = late
		}
		if quickest < promised {
			return
		}
	}
	t.Errorf("the quickest of %d attempts returns %v after the end of its context; it must be less than %v", attempts, quickest, promised)
}

// attempt prepares a new rig, calls a function while the file system hangs, and returns the
// lateness of the latest call.
func (b *bench) attempt(t *testing.T, name string, prepare row) (latest time.Duration) {
	r := newRig(t, b)
	call := prepare(r)
	if b.names == testbed.Warm {
		r.resolveAll()
	}
	b.fuse.Hang()
	defer b.fuse.Release()
	latest = b.call(t, name, call)
	if held := b.fuse.Held(); !b.uncounted && unbounded[name] == "" {
		latest = max(latest, b.call(t, name, call), b.call(t, name, call))
		if b.fuse.Held() > held+1 && b.growth(t, name, call) >= repetitions {
			t.Error("each call leaves a request behind")
		}
	}
	return latest
}

// repetitions distinguish a call that leaves a request behind each time from the work of
// earlier rows, which ends meanwhile.
const repetitions = 8

func (b *bench) growth(t *testing.T, name string, call func(context.Context) error) int {
	before := b.fuse.Held()
	for range repetitions {
		b.call(t, name, call)
	}
	return b.fuse.Held() - before
}

func (b *bench) call(t *testing.T, name string, call func(context.Context) error) (late time.Duration) {
	held := b.fuse.Held()
	late, returned := lateness(call)
	if !returned {
		stacks := make([]byte, 1<<20)
		t.Logf("%s", stacks[:runtime.Stack(stacks, true)])
		require.FailNow(t, "it is stuck")
	}
	b.report.add(name, late, b.fuse.Held() > held)
	return late
}

// lateness returns how long after the end of its context a call returned.
func lateness(call func(ctx context.Context) error) (late time.Duration, returned bool) {
	ctx, cancel := context.WithTimeout(context.Background(), given)
	defer cancel()
	done := make(chan time.Time, 1)
	go func() {
		_ = call(ctx)
		done <- time.Now()
	}()
	select {
	case at := <-done:
		end, _ := ctx.Deadline()
		return max(0, at.Sub(end)), true
	case <-time.After(stuck):
		return 0, false
	}
}

// withoutRequest are functions that send no request to a file system, with the reason.
var withoutRequest = map[string]string{
	"content.MapGetter.GetConfigMap":           inMemory,
	"content.MapGetter.GetNodeAllocatable":     inMemory,
	"content.MapGetter.GetSecret":              inMemory,
	"content.MapGetter.GetServiceAccountToken": inMemory,
	"content.MapGetter.GetTrustBundle":         inMemory,
	"content.Plugin.Init":                      inMemory,
	"emptydir.Plugin.Init":                     inMemory,
	"flexvolume.Plugin.Init":                   inMemory,
	"nfs.Plugin.Init":                          inMemory,
	"nfs.ProvisioningPlugin.Init":              inMemory,

	"disk.Device.Claim":       "acquires a lock of the process",
	"disk.Device.IsBelowLoop": "reads sysfs",

	"hostpath.inPlace.GetMetrics":           "measures nothing",
	"local.Plugin.ConstructVolumeSpec":      "reads the mount table alone",
	"flexvolume.Plugin.ConstructVolumeSpec": "reads the mount table alone",

	"manager.Manager.WaitForAllPodsUnmount":         waitsForRun,
	"manager.Manager.WaitForAttachAndMount":         waitsForRun,
	"manager.Manager.WaitForUnmount":                waitsForRun,
	"manager.Manager.WaitForVolumes":                waitsForRun,
	"manager.MemorySource.GetPersistentVolume":      inMemory,
	"manager.MemorySource.GetPersistentVolumeClaim": inMemory,
	"manager.MemorySource.Pod":                      inMemory,
	"manager.MemorySource.Pods":                     inMemory,

	"mount.KnowsOption":                                 kernelAlone,
	"mount.Mounter.List":                                kernelAlone,
	"mount.Mounter.Watch":                               kernelAlone,
	"mount.Mounter.WatchMounts":                         kernelAlone,
	"mount/mountutils.Peer.List":                        kernelAlone,
	"mount/mountutils.Peer.MountsFrom":                  "compares the names in the mount table",
	"util/podvolume.Mounts.At":                          kernelAlone,
	"util/podvolume.Tmpfs":                              kernelAlone,
	"util/loop.List":                                    kernelAlone,
	"util/loop.Named":                                   kernelAlone,
	"recycler.Pod.Recycle":                              "calls an API server, which hangs instead",
	"recycler.Pod.Wait":                                 "no pod is at work",
	"util/ctxend.Error":                                 inMemory,
	"util/ctxend.Receive":                               inMemory,
	"util/ctxend.Sleep":                                 inMemory,
	"util/progress.Begin":                               inMemory,
	"util/progress.Inherit":                             inMemory,
	"util/progress.With":                                inMemory,
	"util/keylock.Map.Lock":                             "the row holds the lock after its first call",
	"volume.VolumePluginMgr.FindAttachablePluginBySpec": "the row's plugin has no attacher",
}

const (
	inMemory    = "reads memory alone"
	waitsForRun = "waits for Run"
	kernelAlone = "queries the kernel, not a file system"
)

// run runs all rows, logs the report, and requires that the file system has received a request of
// each. The rows without a request run once more: on a busy machine a context may end before the
// call has sent its request.
func (r *report) run(t *testing.T, all map[string]row, run func(suffix string, rows map[string]row)) {
	run("", all)
	if silent := r.silent(all); len(silent) > 0 {
		run("-again", silent)
	}
	r.log(t)
	for name := range r.silent(all) {
		t.Errorf("%s: none of %d calls has sent a request to the file system", name, len(r.late[name]))
	}
}

// silent returns the rows that should have sent a request and have not.
func (r *report) silent(all map[string]row) map[string]row {
	silent := maps.Clone(all)
	maps.DeleteFunc(silent, func(name string, _ row) bool {
		return r.asked[name] > 0 || len(r.late[name]) == 0 || withoutRequest[name] != ""
	})
	return silent
}

// A report is for the reader of: VOLUMEKIT_REQUIRE=timing go test -v -run TestNeverStuck ./internal/neverstuck
type report struct {
	mu    sync.Mutex
	late  map[string][]time.Duration
	asked map[string]int // calls during which the file system received a request
}

func (r *report) add(name string, late time.Duration, asked bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late == nil {
		r.late, r.asked = map[string][]time.Duration{}, map[string]int{}
	}
	r.late[name] = append(r.late[name], late)
	if asked {
		r.asked[name]++
	}
}

func (r *report) log(t *testing.T) {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "ms after the end of the context\tcalls\thung\tmedian\tmax\t")
	for _, name := range slices.Sorted(maps.Keys(r.late)) {
		late := slices.Sorted(slices.Values(r.late[name]))
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t\n", name, len(late), r.asked[name], late[len(late)/2].Milliseconds(), late[len(late)-1].Milliseconds())
	}
	require.NoError(t, w.Flush())
	t.Logf("\n%s", text.String())
}
