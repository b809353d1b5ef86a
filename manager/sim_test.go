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
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestSimulation runs the manager's loop on a simulated node: its operations are carried
// out one by one, when a scheduler with a seed says so, which also lets pods come and go,
// makes plugins and the source fail or panic, kills the manager, takes mounts away, and
// moves the clock. What must never happen is looked for after each step; at the end
// faults stop, and all has to be as desired, in a bounded number of operations, and stay.
// One seed gives one trace.
//
// VOLUMEKIT_SEEDS is how many seeds to try, VOLUMEKIT_SEED the one to replay, with its
// trace.
func TestSimulation(t *testing.T) {
	if text := os.Getenv("VOLUMEKIT_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		s := simulate(seed)
		t.Log(strings.Join(s.trace, "\n"))
		require.Empty(t, s.failures)
		return
	}
	seeds := uint64(3000)
	if text := os.Getenv("VOLUMEKIT_SEEDS"); text != "" {
		var err error
		seeds, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	var next, failed atomic.Uint64
	var all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() {
			for seed := next.Add(1) - 1; seed < seeds && failed.Load() == 0; seed = next.Add(1) - 1 {
				if s := simulate(seed); len(s.failures) > 0 {
					failed.Add(1)
					t.Errorf("%s\nreplay with VOLUMEKIT_SEED=%d; the last of the trace:\n%s", s.failures[0], seed,
						strings.Join(s.trace[max(0, len(s.trace)-40):], "\n"))
				}
			}
		})
	}
	all.Wait()
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
	calm     bool                    // faults have ended
	vanished bool                    // a mount was taken away, and the manager does not know yet
	pods     int                     // that have ever been
	notUntil map[operation]time.Time // what failed and is not to begin before

	trace    []string
	failures []string
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

// simVolumes are the persistent volumes, by what they need; o is for one pod only, r
// follows something else.
var simVolumes = []string{"p-0", "d-1", "a-2", "ad-3", "o-4", "ado-5", "r-6", "ad-7"}

func simulate(seed uint64) *simulation {
	s := &simulation{notUntil: map[operation]time.Time{}, Rand: rand.New(rand.NewPCG(seed, 1)), now: time.Unix(1_700_000_000, 0)}
	s.world = &simWorld{
		attached: map[string]bool{}, device: map[string]bool{}, dirs: map[podDir]string{},
		files: map[v1.UniqueVolumeName]record{}, violation: s.fail,
	}
	s.source = &simSource{pods: map[types.UID]*v1.Pod{}, failing: map[string]bool{}, changed: make(chan struct{}, 1)}
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
	s.trace = append(s.trace, fmt.Sprintf("%s ", s.now.Format("04:05.000"))+fmt.Sprintf(format, args...))
}

func (s *simulation) fail(format string, args ...any) {
	s.log("VIOLATION: "+format, args...)
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
}

// boot starts a manager on what is there.
func (s *simulation) boot() {
	s.log("boot")
	m := &Manager{
		attacher: pluginAttacher{}, disk: s.world, wake: make(chan struct{}, 1),
		waiters: map[types.UID]map[chan struct{}]bool{}, inUse: map[v1.UniqueVolumeName]bool{}, world: newWorld(),
	}
	host, err := volume.NewHost("/", volume.WithNodeName("node"))
	if err != nil {
		panic(err)
	}
	plugins, err := volume.NewVolumePluginMgr(host, simPlugin{s.world})
	if err != nil {
		panic(err)
	}
	m.config = Config{Plugins: plugins, Host: host, Mounter: simKernel{simWorld: s.world}, Source: s.source, Workers: 3}
	if err := m.config.check(); err != nil {
		panic(err)
	}
	s.source.told, s.source.toldOnce = nil, false
	s.pending = nil
	clear(s.notUntil)
	s.loop = &loop{Manager: m, later: map[v1.UniqueVolumeName]time.Time{}, populateDue: true}
	s.loop.launch = func(op operation, work func() outcome) {
		s.started++
		s.log("  begins %v", op)
		s.checkBegun(op)
		j := simJob{operation: op, work: work}
		if s.IntN(2) == 0 {
			j.done = s.do(j)
		}
		s.pending = append(s.pending, j)
	}
	s.answer = nil
	s.loop.scan = func(work func() []rebuilt) { s.loop.rescanned(context.Background(), work()) }
	s.loop.ask = func(work func() answer) { s.answer = &simAnswer{work(), s.source.asked} }
	s.loop.resync, s.loop.refresh = after(s.now, m.config.Resync), after(s.now, m.config.Refresh)
	if err := s.loop.restore(context.Background()); err != nil {
		s.fail("restore: %v", err)
	}
	s.beat()
}

// step does one thing.
func (s *simulation) step() {
	switch n := s.IntN(110); {
	case n < 10:
		s.hear()
	case n < 28:
		s.addPod()
	case n < 40:
		s.removePod()
	case n < 80:
		s.finishOne()
	case n < 95:
		s.passTime()
	case n < 100:
		s.takeAway()
	case n < 104:
		s.disturbSource()
	case n < 106:
		s.loop.MarkRemountRequired(s.anyPod())
		s.beat()
	default:
		s.crash()
	}
}

func (s *simulation) addPod() {
	if len(s.source.pods) > 4 {
		return
	}
	s.pods++
	uid := fmt.Sprintf("p%d.%d", s.IntN(3), s.pods) // names come again, UIDs do not
	claims := []string{simVolumes[s.IntN(len(simVolumes))]}
	if more := simVolumes[s.IntN(len(simVolumes))]; more != claims[0] {
		claims = append(claims, more)
	}
	s.log("pod %s with %v", uid, claims)
	s.source.pods[types.UID(uid)] = simPod(uid, claims...)
	s.changed()
}

// anyPod returns one that the source has, or none.
func (s *simulation) anyPod() types.UID {
	var uids []types.UID
	for uid := range s.source.pods {
		uids = append(uids, uid)
	}
	slices.Sort(uids)
	if len(uids) == 0 {
		return ""
	}
	return uids[s.IntN(len(uids))]
}

func (s *simulation) removePod() {
	uid := s.anyPod()
	if uid == "" {
		return
	}
	if s.IntN(2) == 0 {
		s.log("pod %s has ended", uid)
		ended := s.source.pods[uid].DeepCopy()
		ended.Status.Phase = v1.PodSucceeded
		s.source.pods[uid] = ended
	} else {
		s.log("pod %s is gone", uid)
		delete(s.source.pods, uid)
	}
	s.changed()
}

func (s *simulation) changed() {
	s.loop.populateDue = true
	if s.IntN(4) > 0 { // the loop may be slow to hear of it
		s.beat()
		s.hear()
	}
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

// finishOne carries out an operation that runs; one that is never chosen hangs.
func (s *simulation) finishOne() {
	if len(s.pending) == 0 {
		return
	}
	i := s.IntN(len(s.pending))
	j := s.pending[i]
	s.pending = slices.Delete(s.pending, i, i+1)
	s.settle(j)
}

// do carries an operation out, or fails to.
func (s *simulation) do(j simJob) *outcome {
	if !s.calm && s.IntN(3) == 0 {
		s.world.fault = simFault(s.IntN(int(numberOfFaults)))
	}
	fault := s.world.fault
	out := j.work()
	s.world.fault = works
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
	if out.err != nil && !cancelled {
		s.notUntil[j.operation] = s.now.Add(s.loop.config.Backoff)
	}
	s.beat()
}

func (s *simulation) passTime() {
	switch s.IntN(3) { // never back: the times that the loop compares are monotonic
	case 0:
		s.now = s.now.Add(time.Duration(s.IntN(1000)) * time.Millisecond)
	case 1:
		s.now = s.now.Add(time.Duration(s.IntN(300)) * time.Second)
	default:
		if at := s.loop.nextDue(s.now); at.After(s.now) {
			s.now = at
		}
	}
	s.log("it is later")
	s.beat()
}

// takeAway unmounts something behind the manager's back.
func (s *simulation) takeAway() {
	var mounted []podDir
	for dir, vol := range s.world.dirs {
		if vol != notMounted {
			mounted = append(mounted, dir)
		}
	}
	if len(mounted) == 0 {
		return
	}
	slices.SortFunc(mounted, func(a, b podDir) int { return strings.Compare(simPath(a), simPath(b)) })
	dir := mounted[s.IntN(len(mounted))]
	s.log("somebody unmounts %s", simPath(dir))
	s.world.dirs[dir] = notMounted
	s.loop.mu.Lock()
	s.loop.tableChanged = true
	s.loop.mu.Unlock()
	s.vanished = true
	s.beat()
}

func (s *simulation) disturbSource() {
	s.source.fails = s.IntN(3) == 0
	clear(s.source.failing)
	if s.IntN(2) == 0 {
		s.source.failing[simVolumes[s.IntN(len(simVolumes))]] = true
	}
	s.log("the source: fails %v, cannot read %v", s.source.fails, s.source.failing)
	s.changed()
}

// crash kills the manager. What runs may have been done, in part or whole, and nobody
// will hear of it.
func (s *simulation) crash() {
	s.log("SIGKILL")
	for _, j := range s.pending {
		if j.done == nil && s.IntN(2) == 0 {
			s.world.fault = simFault(s.IntN(int(panics)))
			s.log("  %v was under way, fault %d", j.operation, s.world.fault)
			j.work()
			s.world.fault = works
		}
	}
	s.boot()
}

// beat has the loop do what is due.
func (s *simulation) beat() {
	s.loop.beat(context.Background(), s.now)
}
