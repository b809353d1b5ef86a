package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs the manager's loop on a simulated node: a kernel
// (mounttest.Fake), a disk in memory that has the manager's records and the layout of a
// real one, and storage that is attached. Operations are carried out one by one, when a
// scheduler with a seed says so. What must never happen is looked for after each step; at
// the end faults stop, and all has to be as desired, in a bounded number of operations,
// and stay so without another change.
//
// The volumes are plain mounts, ones that have to be attached, ones that are mounted once
// for all pods, both, raw devices, directories that pods share, ones that grow, that
// follow something else, or are for one pod at a time; read-only by their claim or by the
// container, also for one pod and not for the next, also by two names in one pod.
//
// What happens to them:
//
//   - pods come, end, go, and come again by the same name; the source tells of them late,
//     fails, and cannot read a claim;
//   - a volume is deleted and made anew by its name; one grows;
//   - a plugin fails before, after or in the midst of what it does, for a while or for
//     good, knowing or not what it has changed; it panics; it does not understand what it
//     finds after a restart;
//   - the kernel fails to mount, to unmount, or to tell what is mounted; or has done it,
//     and it is not known;
//   - a server dies: what asks it ends only when its context does, or when the server is
//     back; a call that nobody wants any more ends late;
//   - records cannot be written or removed, or are and nobody knows; one is torn;
//     directories cannot be removed;
//   - the process is killed, between any two changes that an operation makes, and starts
//     again on what is there;
//   - somebody unmounts a volume, in a pod or below all of them, or mounts something else
//     in its place;
//   - containers of a pod get parts of its volumes (sub-paths);
//   - the clock jumps forward, and back;
//   - with Config.ReportFirst, the cluster hears late of what is in use;
//   - there are volumes of a kubelet with CSI from before, and empty directories.
//
// What must never be, after any step:
//
//   - two operations on a volume at a time, or one that is tried again too early;
//   - something taken down before all pods are known, from a pod that runs, or while a
//     container has a part of it; or released though the pod runs that it was made for;
//   - a volume set up, mounted, staged or mapped on what is not there, or on another life
//     of it; unmounted, taken down or detached below what uses it; grown before it is up;
//   - something attached, mounted or staged for all pods without a record of it;
//   - something attached and not reported as in use; attached before it was reported;
//   - a volume for one pod in two; two mounts in one place; one that a pod has read-only
//     and could write to;
//   - a pod told that a volume is up, or gone, that is not;
//   - anything removed through a mount, or that is not ours; what was left of others is
//     there.
//
// guards lists what in the code keeps it so; without any one of them a run fails
// (TestSimulationFindsMissingGuards). One seed gives one trace.
//
// VOLUMEKIT_SEEDS is how many seeds to try, or from which to which (as 100000-200000);
// VOLUMEKIT_SEED the one to replay, with its trace.
func TestSimulation(t *testing.T) {
	if text := os.Getenv("VOLUMEKIT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		s := simulate(seed)
		t.Log(strings.Join(s.trace, "\n"))
		require.Empty(t, s.failures)
		return
	}
	first, last := simSeeds(t)
	var next, failed atomic.Uint64
	next.Store(first)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1) - 1; seed < last && failed.Load() == 0; seed = next.Add(1) - 1 {
				if s := simulate(seed); len(s.failures) > 0 {
					failed.Add(1)
					t.Errorf("%s\nreplay with VOLUMEKIT_SEED=%d; the last of the trace:\n%s", s.failures[0], seed,
						strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
				}
			}
		})
	}
	all.Wait()
}

// simSeeds returns the first seed, and the one after the last.
func simSeeds(t *testing.T) (first, last uint64) {
	text := os.Getenv("VOLUMEKIT_SEEDS")
	switch {
	case text == "" && testing.Short():
		return 0, 300
	case text == "":
		return 0, 1500
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		from, to = "0", text
	}
	first, err := strconv.ParseUint(from, 10, 64)
	require.NoError(t, err)
	last, err = strconv.ParseUint(to, 10, 64)
	require.NoError(t, err)
	return first, last
}

func TestSimulationIsReplayed(t *testing.T) {
	for seed := range uint64(50) {
		require.Equal(t, simulate(seed).trace, simulate(seed).trace)
	}
}

// A simulation is one run of one seed.
type simulation struct {
	*rand.Rand
	world  *simWorld
	source *simSource
	loop   *loop
	now    time.Time

	pending  []simJob // that run, in the order in which they began
	answer   *simAnswer
	started  int
	calm     bool                   // faults have ended
	pods     int                    // that have ever been
	notUntil map[operation]simPause // what failed and is not to begin before
	foundAt  map[operation]uint64   // what was mounted at its place when it was done

	all         map[types.UID]*v1.Pod // that have ever been
	born        map[podDir]int        // in which life of its volume a pod has come
	disturbed   map[string]bool       // mounts that were taken away, and the manager need not know
	kept        []string              // what others have left
	reportFirst bool
	reported    map[v1.UniqueVolumeName]bool

	trace    []string
	failures []string
}

// A simPause is over at that time, or when what is mounted there is not that any more.
type simPause struct {
	until time.Time
	mount uint64
}

// A simAnswer of the source is under way to the loop.
type simAnswer struct {
	answer
	pods map[types.UID]*v1.Pod // that it tells of
}

// A simJob is an operation that runs.
type simJob struct {
	operation
	work func() outcome
	done *outcome // it was done at once, and only says so later
}

func simulate(seed uint64) *simulation {
	s := &simulation{
		Rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0),
		notUntil: map[operation]simPause{}, foundAt: map[operation]uint64{}, all: map[types.UID]*v1.Pod{}, born: map[podDir]int{}, disturbed: map[string]bool{},
	}
	s.world = newSimWorld([]mount.UnmountStep{mount.UnmountQuarantine, mount.UnmountPlain}[s.IntN(2)])
	s.world.violation = s.fail
	s.source = &simSource{
		pods: map[types.UID]*v1.Pod{}, failing: map[string]bool{}, lives: map[string]int{}, sizes: map[string]int64{},
		volumes: map[string]*v1.PersistentVolume{}, said: map[string]int64{},
		changed: make(chan struct{}, 1), backward: s.IntN(2) == 0,
	}
	s.reportFirst = s.IntN(4) == 0
	defer func() {
		if r := recover(); r != nil {
			s.fail("panic: %v", r)
		}
	}()
	s.furnish()
	s.boot()
	for range 20 + s.IntN(60) {
		s.step()
		s.check()
		if len(s.failures) > 0 {
			return s
		}
	}
	s.calmDown()
	return s
}

func (s *simulation) log(format string, args ...any) {
	s.trace = append(s.trace, s.now.Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	s.log("VIOLATION: "+format, args...)
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

// simHost is the layout of all nodes.
var simHost = sync.OnceValue(func() *volume.Host {
	host, err := volume.NewHost("/", volume.WithNodeName("node"))
	if err != nil {
		panic(err)
	}
	return host
})

// furnish puts on the node what others have left there.
func (s *simulation) furnish() {
	tree := s.world.tree
	shared := simShared + "s-12"
	s.must(tree.mkdirs(shared), tree.write(shared+"/data", []byte("precious")))
	s.kept = []string{shared + "/data"}
	if s.IntN(3) == 0 {
		csi := "/pods/csi/volumes/kubernetes.io~csi/pvc-1"
		s.must(tree.mkdirs(csi+"/mount"), tree.write(csi+"/vol_data.json", []byte(`{"driverName":"csi"}`)))
		s.must(s.world.mount(context.Background(), mount.Request{Source: "csi", FSType: "csi", Target: csi + "/mount"}))
		s.must(tree.write("/pods/csi/etc-hosts", nil), tree.mkdirs("/pods/csi/volumes/"+simEscaped))
		s.kept = append(s.kept, csi+"/vol_data.json", csi+"/mount", "/pods/csi/etc-hosts")
	}
	if s.IntN(3) == 0 {
		s.must(tree.mkdirs("/pods/old/volumes/"+simEscaped+"/p-0"), tree.mkdirs("/pods/old/plugins/"+simEscaped+"/p-0"),
			tree.mkdirs("/pods/older/volumeDevices/"+simEscaped))
	}
}

func (s *simulation) must(errs ...error) {
	for _, err := range errs {
		if err != nil {
			s.fail("%v", err)
		}
	}
}

// boot starts a manager on what is there.
func (s *simulation) boot() {
	s.log("boot")
	s.world.killIn, s.world.breakIn, s.world.fault = -1, -1, works
	plugins, err := volume.NewVolumePluginMgr(simHost(), simPlugin{s.world})
	s.must(err)
	m, err := New(Config{
		Plugins: plugins, Host: simHost(), Mounter: s.world.kernel, Source: s.source, Workers: 3, ReportFirst: s.reportFirst,
		Events: func(e Event) { s.log("    event %s %s %s", e.Reason, e.PodUID, e.Unique) },
	})
	s.must(err)
	m.disk = simDisk{s.world}
	m.begins()
	s.source.told, s.source.toldOnce = nil, false
	s.pending, s.answer, s.reported = nil, nil, nil
	clear(s.notUntil)
	s.loop = &loop{Manager: m, later: map[v1.UniqueVolumeName]time.Time{}, unseen: map[string]delay{}, populateDue: true}
	s.loop.inquirer = newInquirer(m)
	s.loop.launch = s.launch
	s.loop.scan = func(work func() finding) { s.loop.rescanned(context.Background(), work()) }
	s.loop.ask = func(work func() answer) { s.answer = &simAnswer{work(), s.source.asked} }
	s.loop.resync, s.loop.refresh = after(s.now, m.config.Resync), after(s.now, m.config.Refresh)
	s.must(s.loop.restore(context.Background()))
	s.beat()
}

// launch lets an operation begin: it is done at once, and says so later, or only then.
func (s *simulation) launch(op operation, work func() outcome) {
	s.started++
	s.log("  begins %v", op)
	s.checkBegun(op)
	j := simJob{operation: op, work: work}
	if s.IntN(2) == 0 && !s.hangs(j) {
		j.done = s.do(j)
	}
	s.pending = append(s.pending, j)
}

// hangs reports whether an operation waits for a server that is dead, and nobody has told
// it to give up.
func (s *simulation) hangs(j simJob) bool {
	vol := volumeOf(j.volume)
	if j.verb == setUp {
		vol = j.pod.name
	}
	f := s.loop.flights[j.volume]
	return s.world.dead[vol] && f != nil && !f.cancelled && s.now.Sub(f.since) < s.loop.config.Timeout &&
		(j.verb == setUp && !needs(vol, "d") || j.verb == mountDevice) && !needs(vol, "b")
}

// do carries an operation out, or fails to.
func (s *simulation) do(j simJob) *outcome {
	w := s.world
	if !s.calm && s.IntN(3) == 0 {
		w.fault = simFault(s.IntN(int(numberOfFaults)))
	}
	fault := w.fault
	if w.strikes(breaks) {
		w.breakIn = s.IntN(6)
	}
	if w.strikes(kernelSilent) {
		w.kernel.Inject(mountSilence)
	}
	out := j.work()
	w.fault, w.breakIn = works, -1
	w.resetKernel()
	s.foundAt[j.operation] = s.mountAt(j.operation)
	s.log("  done %v: fault %d, err %v", j.operation, fault, out.err)
	return &out
}

func (s *simulation) settle(j simJob) {
	out := j.done
	if out == nil {
		out = s.do(j)
	}
	s.log("  ended %v: err %v", j.operation, out.err)
	cancelled := s.loop.flights[j.volume].cancelled
	s.loop.settle(*out, s.now)
	if out.err == nil {
		delete(s.notUntil, j.operation.opposite())
	}
	if delete(s.notUntil, j.operation); out.err != nil && !cancelled {
		s.notUntil[j.operation] = simPause{s.now.Add(s.loop.config.Backoff), s.foundAt[j.operation]}
	}
	if s.calm || s.IntN(3) == 0 {
		s.tellOfTable() // our own mounts change it, too
	}
	s.beat()
}

func (s *simulation) tellOfTable() {
	s.loop.mu.Lock()
	defer s.loop.mu.Unlock()
	s.loop.tableChanged = true
}

// beat has the loop do what is due.
func (s *simulation) beat() {
	s.loop.beat(context.Background(), s.now)
}

// hear lets the answer of the source arrive.
func (s *simulation) hear() {
	if s.answer == nil {
		return
	}
	a := s.answer
	s.answer = nil
	if a.err == nil {
		s.source.told, s.source.toldOnce = a.pods, true
	}
	s.log("  the source: %d pods, err %v", len(a.pods), a.err)
	s.loop.answered(a.answer, s.now)
	s.beat()
}

// anyOf returns one of what is sorted; of nothing, nothing.
func anyOf[T any](s *simulation, all []T) (one T) {
	if len(all) > 0 {
		one = all[s.IntN(len(all))]
	}
	return one
}

func (s *simulation) anyVolume() string { return anyOf(s, simVolumes) }

// anyPod returns one that the source has, or none.
func (s *simulation) anyPod() types.UID {
	var uids []types.UID
	for uid := range s.source.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return anyOf(s, uids)
}
