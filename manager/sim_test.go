package manager

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs the manager's loop on a simulated node: a kernel (mounttest.Fake), a disk
// in memory that has the manager's records and the layout of a real disk, and storage that can
// be attached. A scheduler with a seed decides when each operation runs and when the loop
// receives its outcome. The forbidden states are checked after each step. At the end faults
// stop, and the actual state must reach the desired state in a bounded number of operations,
// and then stay unchanged.
//
// simVolumes has a volume of each kind: plain mounts, attached volumes, device mounts, both,
// block devices, directories that pods share, volumes that grow, require remounts, or are for
// one pod at a time. A volume, also a block device, can be read-only by its claim or by the
// container, in one pod and not in the next, or under one of two names in a pod.
//
// Events:
//
//   - pods are created, end, are deleted, removed, and created again under the same name;
//     claims are protected, and deleted; the source reports all this late, fails, or cannot
//     read a claim;
//   - a volume is edited, or deleted and recreated under its name, with another handle, plugin
//     or mode; a volume grows;
//   - a plugin fails before, during or after its work, temporarily or permanently, with a
//     final or an uncertain error; it panics; it cannot reconstruct a volume after a restart;
//   - the kernel fails to mount, to unmount, or to list mounts; or it mounts or unmounts and
//     returns an error;
//   - a server dies: calls that need it end with their context, or when the server is back;
//     a cancelled call ends late;
//   - writing or removing a record fails, before or after the change; a record is torn;
//     directories cannot be removed;
//   - the process is killed, between any two changes of an operation, and starts again on
//     the remaining state;
//   - another process unmounts a volume in a pod or a device mount, or mounts another file
//     system in its place;
//   - another process detaches a volume;
//   - subpaths of volumes are mounted for the containers of a pod;
//   - the clock jumps forward, and back;
//   - with Config.ReportFirst, the volumes in use are reported late to the cluster;
//   - volumes of a kubelet with CSI, and empty directories, exist from an earlier time.
//
// Forbidden states, checked after each step:
//
//   - a volume is brought up for a pod that is being deleted and has never run;
//   - two operations of a volume are in flight, other than tear-downs in different pods; an
//     operation is retried during its backoff;
//   - a volume is torn down before the source has returned all pods, from a running pod, or
//     while a container has a subpath of it; it is released while the pod runs for which it was
//     brought up;
//   - a volume is set up, mounted, staged or mapped without the step below it, or on another
//     life of it; it is unmounted, torn down or detached below its users; it is grown before it
//     is up;
//   - a volume is attached, mounted or staged for all pods without a record;
//   - an attached volume is not reported as in use, or was attached before the report;
//   - a volume for one pod is in two pods; two mounts have the same path; a pod could write to a
//     volume that it has read-only;
//   - a volume is reported as up, or as gone, to a pod where it is not;
//   - a path is removed through a mount, or a path of another program is removed.
//
// guards lists code fragments that prevent these states: without any one of them a run fails
// (TestSimulationFindsMissingGuards). tableGuards lists those that no run of 10,000 misses, and that
// tests of few steps find: among them two volumes of one directory of a pod, the attachment after a
// late reconstruction, and the specification of an uncertain volume. One seed gives one trace.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 100000-200000);
// VOLUMEKIT_SEED is a seed to replay with its trace.
func TestSimulation(t *testing.T) {
	if seed, ok := testbed.ReplayedSeed(t); ok {
		s := simulate(seed)
		t.Log(strings.Join(s.trace, "\n"))
		require.Empty(t, s.failures)
		return
	}
	first, last := testbed.Seeds(t, 300, 1500)
	var next, failed atomic.Uint64
	next.Store(first)
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1) - 1; seed < last && failed.Load() == 0; seed = next.Add(1) - 1 {
				if s := simulate(seed); len(s.failures) > 0 {
					failed.Add(1)
					t.Error(s.report())
				}
			}
		})
	}
	all.Wait()
}

// TestSimulationIsReplayed: one seed gives one trace.
func TestSimulationIsReplayed(t *testing.T) {
	for seed := range uint64(50) {
		require.Equal(t, simulate(seed).trace, simulate(seed).trace)
	}
}

// TestPanicOfStepHasSeed: a panic in a step is a failure that names the seed.
func TestPanicOfStepHasSeed(t *testing.T) {
	s := newSimulation(7)
	s.run(func() { panic("lost") })
	require.Len(t, s.failures, 1)
	require.Contains(t, s.report(), "panic: lost\n")
	require.Contains(t, s.report(), "replay with VOLUMEKIT_SEED=7;")
}

// A simulation is one run of one seed.
type simulation struct {
	*rand.Rand
	seed   uint64
	world  *simWorld
	source *simSource
	loop   *loop
	now    time.Time

	pending     []simJob // in flight, in the order of their starts
	population  *simPopulation
	scan        *scanResult // result of a rescan that the loop has not received
	mountCheck  *mountcheck.Check
	started     int
	faultsEnded bool // faults have ended
	// isIncremental: the source names the changed objects; isUnspecific: it reports only that something
	// has changed.
	isIncremental, isUnspecific bool
	namesMounts                 bool                             // mount events name the changed mounts
	pods                        int                              // the number of pods created
	backoffs                    map[operation.Operation]simPause // of failed operations
	mountsAfter                 map[operation.Operation]uint64   // the mount at the operation's directory after it
	tornDown                    map[operation.Operation]bool     // successful tear-downs without a later set-up

	allPods       map[types.UID]*v1.Pod  // pods ever created
	startedSetUps map[naming.PodKey]bool // volumes whose set-up has started
	lifeAtStart   map[naming.PodDir]int  // the life of a volume at the creation of its pod
	unnoticed     map[string]bool        // removed or replaced mounts that the manager may not have checked yet
	foreignPaths  []string               // paths of other programs
	reportFirst   bool
	reported      map[v1.UniqueVolumeName]bool
	inUse         []v1.UniqueVolumeName // as of the last call of a subscriber
	inUseComplete bool

	trace    []string
	failures []string
}

// A simPause ends at its time, or when the mount at its path changes.
type simPause struct {
	until time.Time
	mount uint64
}

// A simPopulation is the result of a population that the loop has not yet received.
type simPopulation struct {
	populationResult
	pods map[types.UID]*v1.Pod // the pods of the source at that time
}

// A simJob is an in-flight operation.
type simJob struct {
	operation.Operation
	work func() execution.Outcome
	done *execution.Outcome // the outcome of work that ran at once and is delivered later
}

func newSimulation(seed uint64) *simulation {
	s := &simulation{
		Rand: rand.New(rand.NewPCG(seed, 1)), seed: seed, now: time.Unix(1_700_000_000, 0),
		backoffs: map[operation.Operation]simPause{}, mountsAfter: map[operation.Operation]uint64{}, tornDown: map[operation.Operation]bool{},
		allPods: map[types.UID]*v1.Pod{}, lifeAtStart: map[naming.PodDir]int{}, startedSetUps: map[naming.PodKey]bool{}, unnoticed: map[string]bool{},
	}
	s.world = newSimWorld([]mount.UnmountStep{mount.UnmountQuarantine, mount.UnmountPlain}[s.IntN(2)])
	s.world.violation = s.fail
	s.source = &simSource{
		pods: map[types.UID]*v1.Pod{}, unreadable: map[string]bool{}, deleting: map[string]bool{}, lives: map[string]int{}, sizes: map[string]int64{},
		volumes: map[string]*v1.PersistentVolume{}, publishedSizes: map[string]int64{}, claims: map[string]*v1.PersistentVolumeClaim{}, status: map[string]int64{},
		changed: make(chan struct{}, 1), backward: s.IntN(2) == 0,
	}
	s.world.claimSize = func(life string) int64 { return s.source.status[life] }
	s.world.isCurrentLife = func(life string) bool {
		name, _, _ := strings.Cut(life, ".")
		return life == simLifeText(name, s.source.lives[name])
	}
	s.reportFirst = s.IntN(4) == 0
	s.isIncremental, s.isUnspecific, s.namesMounts = seed%2 == 1, seed%16 == 15, seed/2%2 == 1
	return s
}

func simulate(seed uint64) *simulation {
	s := newSimulation(seed)
	s.run(s.runStep)
	return s
}

// run runs a step until a state is forbidden, or else to the end. A panic is a failure.
func (s *simulation) run(step func()) {
	defer func() {
		if r := recover(); r != nil {
			s.fail("panic: %v\n%s", r, debug.Stack())
		}
	}()
	s.createForeignPaths()
	s.startManager()
	for range 20 + s.IntN(60) {
		step()
		s.checkStates()
		if len(s.failures) > 0 {
			return
		}
	}
	s.converge()
}

// report returns the first failure, with the seed that replays it and the last of the trace.
func (s *simulation) report() string {
	return fmt.Sprintf("%s\nreplay with VOLUMEKIT_SEED=%d; the last of the trace:\n%s", s.failures[0], s.seed,
		strings.Join(s.trace[max(0, len(s.trace)-60):], "\n"))
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
	host, err := volume.NewHost(context.Background(), "/", volume.WithNodeName("node"))
	if err != nil {
		panic(err)
	}
	return host
})

// createForeignPaths creates the paths of other programs on the node.
func (s *simulation) createForeignPaths() {
	tree := s.world.tree
	shared := simShared + "s-12"
	s.requireNoError(tree.mkdirs(shared), tree.write(shared+"/data", []byte("precious")))
	s.foreignPaths = []string{shared + "/data"}
	if s.IntN(3) == 0 {
		csi := "/pods/csi/volumes/kubernetes.io~csi/pvc-1"
		s.requireNoError(tree.mkdirs(csi+"/mount"), tree.write(csi+"/vol_data.json", []byte(`{"driverName":"csi"}`)))
		s.requireNoError(s.world.mount(context.Background(), mount.Request{Source: "csi", FSType: "csi", Target: csi + "/mount"}))
		s.requireNoError(tree.write("/pods/csi/etc-hosts", nil), tree.mkdirs("/pods/csi/volumes/"+simEscaped))
		s.foreignPaths = append(s.foreignPaths, csi+"/vol_data.json", csi+"/mount", "/pods/csi/etc-hosts")
	}
	if s.IntN(3) == 0 {
		s.requireNoError(tree.mkdirs("/pods/old/volumes/"+simEscaped+"/p-0"), tree.mkdirs("/pods/old/plugins/"+simEscaped+"/p-0"),
			tree.mkdirs("/pods/older/volumeDevices/"+simEscaped))
	}
}

func (s *simulation) requireNoError(errs ...error) {
	for _, err := range errs {
		if err != nil {
			s.fail("%v", err)
		}
	}
}

// startManager starts a manager on the present state of the node.
func (s *simulation) startManager() {
	s.log("boot")
	s.world.killIn, s.world.failIn, s.world.fault = -1, -1, noFault
	plugins, err := volume.NewVolumePluginMgr(context.Background(), simHost(), simPlugin{s.world, simName}, simPlugin{s.world, simOther})
	s.requireNoError(err)
	m, err := New(Config{
		Plugins: plugins, Mounter: s.world.kernel, Pods: s.source, Claims: s.source, Workers: 3, ReportFirst: s.reportFirst,
		Expansions: s.recordExpansion,
		Events:     func(e Event) { s.log("    event %s %s %s", e.Reason, e.PodUID, e.Unique) },
	})
	s.requireNoError(err)
	m.SubscribeVolumesInUse(func() { s.inUse, s.inUseComplete = m.CompleteVolumesInUse() })
	s.inUse, s.inUseComplete = nil, false
	m.disk = simDisk{s.world}
	m.startRunning()
	s.source.processed, s.source.hasProcessed = nil, false
	s.pending, s.population, s.reported = nil, nil, nil
	clear(s.backoffs)
	clear(s.tornDown)
	s.loop = newLoop(m, &reading.PendingChanges{})
	s.loop.repopulator.reader = reading.NewReader(m.readerConfig(nil))
	s.loop.background = simBackground{s}
	s.scan, s.mountCheck = nil, nil
	s.loop.repopulator.isIncremental = s.isIncremental
	s.loop.resync, s.loop.refresh = timeAfter(s.now, m.config.Resync), timeAfter(s.now, m.config.Refresh)
	s.requireNoError(s.loop.restorer.restore(context.Background()))
	s.loop.recordTableChange(mount.TableChange{Everything: true})
	s.publishTableChange()
	s.runDueWork()
}

// A simBackground runs work at once. The scheduler delivers the results later; those of attach
// checks are delivered at once.
type simBackground struct{ s *simulation }

func (b simBackground) startOperation(op operation.Operation, work func() execution.Outcome) {
	b.s.startJob(op, work)
}

func (b simBackground) startQuery(work func() result) {
	switch r := work().(type) {
	case scanResult:
		b.s.scan = &r
	case mountCheckResult:
		b.s.mountCheck = &r.Check
	case populationResult:
		b.s.keepPopulation(r)
	case attachCheck:
		r.applyTo(context.Background(), b.s.loop, b.s.now)
	}
}

// startJob starts an operation. Its work runs at once or when its outcome is delivered; the outcome
// is delivered later in both cases.
func (s *simulation) startJob(op operation.Operation, work func() execution.Outcome) {
	s.started++
	s.log("  start %v", op)
	s.checkStart(op)
	j := simJob{Operation: op, work: work}
	if s.IntN(2) == 0 && !s.isHanging(j) {
		j.done = s.runJob(j)
	}
	s.pending = append(s.pending, j)
}

// isHanging reports whether an operation waits for a dead server, and is neither cancelled nor past
// its deadline.
func (s *simulation) isHanging(j simJob) bool {
	vol := simNameOf(j.Volume)
	if j.Verb == operation.SetUp {
		vol = j.Pod.Name
	}
	f := s.loop.schedule.Find(j.Operation)
	return s.world.dead[vol] && f != nil && !f.Cancelled && s.now.Sub(f.Since) < s.loop.config.Timeout &&
		(j.Verb == operation.SetUp && !needs(vol, "d") || j.Verb == operation.MountDevice) && !s.loop.have.Volumes.Get(j.Volume).Traits.Block
}

// runJob runs an operation, in some cases with a random fault.
func (s *simulation) runJob(j simJob) *execution.Outcome {
	w := s.world
	if !s.faultsEnded && s.IntN(3) == 0 {
		w.fault = simFault(s.IntN(int(faultCount)))
	}
	fault := w.fault
	if w.consumeFault(failStep) {
		w.failIn = s.IntN(6)
	}
	if w.consumeFault(failMountQueries) {
		w.kernel.Inject(mountQueryFault)
	}
	out := j.work()
	w.fault, w.failIn = noFault, -1
	w.resetKernel()
	s.mountsAfter[j.Operation] = s.mountAt(j.Operation)
	s.log("  run %v: fault %d, err %v", j.Operation, fault, out.Err)
	return &out
}

func (s *simulation) deliverOutcome(j simJob) {
	out := j.done
	if out == nil {
		out = s.runJob(j)
	}
	s.log("  outcome of %v: err %v", j.Operation, out.Err)
	s.recordTornDown(j.Operation, out.Err)
	cancelled := s.loop.schedule.Find(j.Operation).Cancelled
	s.loop.applyResult(*out, s.now)
	if out.Err == nil {
		delete(s.backoffs, j.Operation.Opposite())
	}
	if delete(s.backoffs, j.Operation); out.Err != nil && !cancelled {
		s.backoffs[j.Operation] = simPause{s.now.Add(s.loop.config.Backoff), s.mountsAfter[j.Operation]}
	}
	if s.faultsEnded || s.IntN(3) == 0 {
		s.publishTableChange() // our own mounts change it, too
	}
	s.runDueWork()
}

// keepPopulation keeps the result of a population, which deliverPopulation delivers.
func (s *simulation) keepPopulation(a populationResult) {
	s.checkPopulation(a)
	s.population = &simPopulation{a, s.source.returned}
}

// publishTableChange notifies the loop of a change of the mount table; with namesMounts, of the
// changed mounts.
func (s *simulation) publishTableChange() {
	if !s.namesMounts {
		s.loop.recordTableChange(mount.TableChange{Everything: true})
		return
	}
	s.world.recordMountEvents()
	change := mount.TableChange{Mounts: s.world.mountEvents}
	s.world.mountEvents = nil
	s.loop.recordTableChange(change)
}

// runDueWork makes the loop do its due work.
func (s *simulation) runDueWork() {
	s.loop.doDueWork(context.Background(), s.now)
	s.checkInUseReports()
}

// deliverPopulation delivers the result of the last population to the loop.
func (s *simulation) deliverPopulation() {
	if s.population == nil {
		return
	}
	a := s.population
	s.population = nil
	if a.err == nil {
		s.source.processed, s.source.hasProcessed = a.pods, true
	}
	s.log("  population: %d pods, err %v", len(a.pods), a.err)
	a.applyTo(context.Background(), s.loop, s.now)
	s.runDueWork()
}

// deliverScan delivers the result of a rescan.
func (s *simulation) deliverScan() {
	if f := s.scan; f != nil {
		s.scan = nil
		s.log("  rescan: %d volumes", len(f.volumes))
		f.applyTo(context.Background(), s.loop, s.now)
		s.runDueWork()
	}
}

// deliverMountCheck delivers the result of a mount check.
func (s *simulation) deliverMountCheck() {
	if seen := s.mountCheck; seen != nil {
		s.mountCheck = nil
		s.log("  mount check: %d gone, %d replaced, %d changed", len(seen.Gone), len(seen.Replaced), len(seen.Changed))
		s.loop.mounts.applyCheck(*seen, s.now)
		s.runDueWork()
	}
}

// deliverAll delivers all results.
func (s *simulation) deliverAll() {
	for s.population != nil || s.scan != nil || s.mountCheck != nil {
		s.deliverPopulation()
		s.deliverScan()
		s.deliverMountCheck()
	}
}

// anyOf returns an element of a sorted slice; the zero value of an empty one.
func anyOf[T any](s *simulation, all []T) (one T) {
	if len(all) > 0 {
		one = all[s.IntN(len(all))]
	}
	return one
}

func (s *simulation) anyVolume() string { return anyOf(s, simVolumes) }

// anyPod returns a pod of the source, or none.
func (s *simulation) anyPod() types.UID {
	var uids []types.UID
	for uid := range s.source.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	return anyOf(s, uids)
}
