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
	slices.Sort(covered)
	require.Equal(t, slices.Compact(functionsWithContext(t)), covered)
}

const (
	// given is the timeout of each call.
	given = 20 * time.Millisecond
	// stuck is the time after which the test gives a call up. It is no measure: a call that
	// returns at all does so long before, also on a busy machine.
	stuck = 10 * time.Second
)

// The file system that hangs, and when.
const (
	hungRoot   = "root"   // that of the host's root, while volumes are set up
	hungSource = "source" // that of the volumes' sources, before the volumes are set up
	hungVolume = "volume" // that of the volumes' sources, while the volumes are set up
)

// TestNeverStuck calls each function three times while a file system hangs. Each call returns,
// and the repetitions leave no further requests behind.
func TestNeverStuck(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	runtime.GOMAXPROCS(max(4, runtime.GOMAXPROCS(0)))
	base := testbed.Tmpfs(t, testbed.Dir(t))
	all := rows()
	maps.DeleteFunc(all, isOfLoop)
	var report report
	var benches sync.WaitGroup
	defer func() { benches.Wait(); report.log(t) }()
	for _, hangs := range []string{hungRoot, hungSource, hungVolume} {
		for _, names := range []string{testbed.Cold, testbed.Warm} {
			for part := range benchesEach {
				b := newBench(t, base, fmt.Sprintf("%s-%s-%d", hangs, names, part), &report)
				b.hangs, b.names = hangs, names
				benches.Go(func() { b.run(t, all, part) })
			}
		}
	}
}

// TestNeverStuckLoop is TestNeverStuck for loop devices, which all tests of the machine share:
// a list queries those of other tests, too, so requests are not counted.
func TestNeverStuckLoop(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	base := testbed.Tmpfs(t, testbed.Dir(t))
	all := rows()
	maps.DeleteFunc(all, func(name string, r row) bool { return !isOfLoop(name, r) })
	var report report
	for _, names := range []string{testbed.Cold, testbed.Warm} {
		for part := range benchesEach {
			b := newBench(t, base, fmt.Sprintf("%s-%d", names, part), &report)
			b.hangs, b.names, b.uncounted = hungSource, names, true
			b.run(t, all, part)
		}
	}
	report.log(t)
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

func (b *bench) try(t *testing.T, name string, prepare row) {
	r := newRig(t, b)
	call := prepare(r)
	if b.names == testbed.Warm {
		r.resolveAll()
	}
	b.fuse.Hang()
	defer b.fuse.Release()
	b.call(t, name, call)
	if held := b.fuse.Held(); !b.uncounted && unbounded[name] == "" {
		b.call(t, name, call)
		b.call(t, name, call)
		if b.fuse.Held() > held+1 && b.growth(t, name, call) >= repetitions {
			t.Error("each call leaves a request behind")
		}
	}
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

func (b *bench) call(t *testing.T, name string, call func(context.Context) error) {
	late, returned := lateness(call)
	if !returned {
		stacks := make([]byte, 1<<20)
		t.Logf("%s", stacks[:runtime.Stack(stacks, true)])
		require.FailNow(t, "it is stuck")
	}
	b.report.add(name, late, b.fuse.Held() > 0)
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

// A report is for the reader of: go test -v -run TestNeverStuck ./internal/neverstuck
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
