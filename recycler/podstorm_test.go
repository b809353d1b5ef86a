package recycler_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
	"github.com/volumekit/volumekit/volume"
)

const (
	stormVolumes = 60
	stormRuns    = 17 // of each volume
)

// TestPodStorm runs one sequence of faults, see testbed.Seed. The faults of a run
// depend on its seed, volume and number alone, not on the other runs.
func TestPodStorm(t *testing.T) {
	seed := testbed.Seed(t)
	synctest.Test(t, func(t *testing.T) {
		s := newStorm(t, seed)
		var all sync.WaitGroup
		for i := range stormVolumes {
			all.Go(func() { s.volume(i) })
		}
		all.Wait()
		time.Sleep(time.Hour) // for late calls
		s.finish()
		t.Logf("seed %d: %d recycled, %d not; faults: %v; %d foreign pods", seed, s.clean, s.failed, s.faults, len(s.foreign))
		require.Positive(t, s.clean)
		require.Positive(t, s.failed)
		for _, op := range recyclertest.Ops {
			require.Positive(t, s.faults[op], op)
		}
	})
}

type storm struct {
	*testing.T
	seed    uint64
	cluster *recyclertest.Cluster
	pods    *recycler.Pod

	mu            sync.Mutex
	clean, failed int
	faults        map[recyclertest.Op]int
	foreign       map[types.UID]bool
	fates         map[string]recyclertest.Fate // by name of the pod
}

const stormCleanup = 90 * time.Second

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{
		T: t, seed: seed, faults: map[recyclertest.Op]int{},
		foreign: map[types.UID]bool{}, fates: map[string]recyclertest.Fate{},
	}
	s.cluster = recyclertest.NewCluster(recyclertest.Config{Fate: s.fateOf, Fault: s.fault})
	var err error
	s.pods, err = recycler.NewPod(recycler.PodConfig{Client: s.cluster, CleanupTimeout: stormCleanup})
	require.NoError(t, err)
	return s
}

// runFaults holds the faults of one run; the run's goroutine uses it, or the work that the run
// has left behind.
type runFaults struct {
	*rand.Rand
	rate    float64
	created map[string]bool // names of the pods that it has asked for
	lied    bool            // an existing object was reported as missing
}

type runKey struct{}

func (s *storm) volume(i int) {
	pv := nfsVolume(fmt.Sprintf("pv-%d", i))
	source := sourceOf(pv)
	quiet := 0
	for n := range stormRuns {
		g := &runFaults{Rand: rand.New(rand.NewPCG(s.seed, uint64(i*stormRuns+n))), created: map[string]bool{}}
		g.rate = []float64{0, 0.05, 0.2, 0.5}[g.IntN(4)]
		time.Sleep(time.Duration(g.IntN(300)) * time.Second)
		about := fmt.Sprintf("VOLUMEKIT_SEED=%d %s run %d", s.seed, pv.Name, n)
		if quiet > 0 && len(s.cluster.Scrubs(source)) != quiet {
			s.Errorf("%s: scrubbed again after it was reported clean", about)
		}
		quiet = s.run(about, g, pv)
	}
}

// run returns how often the volume was scrubbed if no more scrubs are to come.
func (s *storm) run(about string, g *runFaults, pv *v1.PersistentVolume) (quiet int) {
	source := sourceOf(pv)
	s.cluster.Fill(source, "a", "b")
	if g.IntN(4) == 0 {
		s.createLeftoverPod(g, pv)
	}
	before := len(s.cluster.Scrubs(source))
	timeout := time.Duration(1+g.IntN(1200)) * time.Second
	ctx, cancel := context.WithTimeout(context.WithValue(s.Context(), runKey{}, g), timeout)
	defer cancel()
	start := time.Now()
	err := s.pods.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
	if late := time.Since(start) - timeout; late > 100*time.Millisecond {
		s.Errorf("%s: %v later than its context", about, late)
	}
	scrubs := s.cluster.Scrubs(source)
	if err == nil {
		s.checkClean(about, g, source, scrubs[before:])
	} else {
		s.checkError(about, err)
	}
	if errors.Is(err, recycler.ErrPodLeft) {
		return 0 // the gust may still be in use
	}
	if !g.lied {
		if left := s.remainingPods(pv, g, err); len(left) > 0 {
			s.Errorf("%s: %v, and left are %v", about, err, left)
		}
	}
	if err != nil || g.lied {
		return 0
	}
	return len(scrubs)
}

func (s *storm) checkClean(about string, g *runFaults, source v1.VolumeSource, scrubs []v1.Pod) {
	s.count(&s.clean)
	if left := s.cluster.Files(source); len(left) > 0 {
		s.Errorf("%s: reported clean, with %v in it", about, left)
	}
	for _, pod := range scrubs {
		if g.created[pod.Name] {
			return
		}
	}
	s.Errorf("%s: reported clean, and not scrubbed by its own pod", about)
}

func (s *storm) checkError(about string, err error) {
	s.count(&s.failed)
	var e *recycler.PodError
	if !errors.As(err, &e) {
		s.Errorf("%s: %T: %v", about, err, err)
	}
}

func (s *storm) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
}

// remainingPods returns the pods for a volume that a run should have removed: its own, and those
// of earlier ones, unless it did not get to know them.
func (s *storm) remainingPods(pv *v1.PersistentVolume, g *runFaults, err error) []string {
	var names []string
	for _, pod := range s.cluster.Pods() {
		if pod.Labels[recycler.VolumeUIDLabel] == string(pv.UID) && (err == nil || g.created[pod.Name]) {
			names = append(names, pod.Name+" "+string(pod.Status.Phase))
		}
	}
	return names
}

// createLeftoverPod creates a pod that an earlier run could have left behind.
func (s *storm) createLeftoverPod(g *runFaults, pv *v1.PersistentVolume) {
	s.cluster.Put(&v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("recycler-for-%s-%x", pv.Name, g.Uint64()),
			Labels:      map[string]string{recycler.OwnerLabel: "volumekit", recycler.VolumeUIDLabel: string(pv.UID)},
			Annotations: map[string]string{recycler.VolumeAnnotation: pv.Name, recycler.RunAnnotation: "old"},
		},
		Spec:   v1.PodSpec{Volumes: []v1.Volume{{Name: "vol", VolumeSource: sourceOf(pv)}}},
		Status: v1.PodStatus{Phase: []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed}[g.IntN(4)]},
	})
}

func (s *storm) fault(ctx context.Context, call recyclertest.Call) recyclertest.Fault {
	g, ok := ctx.Value(runKey{}).(*runFaults)
	if !ok {
		return recyclertest.Fault{}
	}
	if call.Op == recyclertest.Create {
		g.created[call.Pod.Name] = true
		s.setFate(call.Pod.Name, g.nextFate())
	}
	if g.Float64() >= g.rate {
		return recyclertest.Fault{}
	}
	s.mu.Lock()
	s.faults[call.Op]++
	s.mu.Unlock()
	if g.IntN(8) == 0 {
		s.attack(g, call)
		return recyclertest.Fault{}
	}
	return g.fault(call)
}

// attack puts a foreign pod that has succeeded in the place of one, or takes it away.
func (s *storm) attack(g *runFaults, call recyclertest.Call) {
	name := call.Pod.Name
	switch {
	case name == "": // List
	case g.IntN(2) == 0 && !s.isForeign(name):
		s.cluster.Remove(call.Pod.Namespace, name)
	default:
		foreign := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: call.Pod.Namespace, Name: name}}
		foreign.Status.Phase = v1.PodSucceeded
		if s.isForeign(name) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.foreign[s.cluster.Put(foreign).UID] = true
	}
}

func (s *storm) isForeign(name string) bool {
	for _, pod := range s.cluster.Pods() {
		if pod.Name == name {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.foreign[pod.UID]
		}
	}
	return false
}

var pods = schema.GroupResource{Resource: "pods"}

// openOutcomes are errors that leave open whether the call took effect.
var openOutcomes = []error{
	apierrors.NewTimeoutError("", 1), apierrors.NewServerTimeout(pods, "", 1),
	apierrors.NewInternalError(io.ErrUnexpectedEOF), apierrors.NewServiceUnavailable("closed"),
	io.EOF, context.DeadlineExceeded,
}

var knownOutcomes = []error{
	apierrors.NewNotFound(pods, "x"), apierrors.NewConflict(pods, "x", io.EOF),
	apierrors.NewTooManyRequests("", 1), apierrors.NewResourceExpired(""),
	apierrors.NewAlreadyExists(pods, "x"), apierrors.NewForbidden(pods, "x", io.EOF),
}

func (g *runFaults) fault(call recyclertest.Call) recyclertest.Fault {
	f := recyclertest.Fault{Err: openOutcomes[g.IntN(len(openOutcomes))]}
	switch g.IntN(6) {
	case 0:
		f.Done = true
	case 1:
		f = recyclertest.Fault{Hang: true, Done: g.IntN(2) == 0}
	case 2:
		if call.Op == recyclertest.Create {
			f.Late = time.Duration(1+g.IntN(59)) * time.Second
		}
	default:
		f.Err = knownOutcomes[g.IntN(len(knownOutcomes))]
		f.Done = g.IntN(3) == 0
		g.lied = g.lied || apierrors.IsNotFound(f.Err) && call.Op != recyclertest.Create
	}
	return f
}

func (g *runFaults) nextFate() recyclertest.Fate {
	f := recyclertest.Fate{
		Start: time.Duration(g.IntN(20)) * time.Second,
		Run:   time.Duration(1+g.IntN(120)) * time.Second,
	}
	switch g.IntN(12) {
	case 0:
		f.Phase = v1.PodFailed
	case 1:
		f.Phase, f.Reason = v1.PodFailed, "Evicted"
	case 2:
		f.Vanish = true
	case 3:
		f.Waiting = "ImagePullBackOff"
	case 4:
		f.Never = true
	case 5:
		f.Run = time.Hour
	}
	return f
}

// setFate keeps the first: further tries to create the pod are the same pod.
func (s *storm) setFate(name string, f recyclertest.Fate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.fates[name]; !ok {
		s.fates[name] = f
	}
}

func (s *storm) fateOf(pod *v1.Pod) recyclertest.Fate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fates[pod.Name]
}

// finish recycles all volumes once more without faults, and checks the remaining pods.
func (s *storm) finish() {
	for i := range stormVolumes {
		pv := nfsVolume(fmt.Sprintf("pv-%d", i))
		s.cluster.Fill(sourceOf(pv), "last")
		require.NoError(s, s.pods.Recycle(s.Context(), pv.Name, volume.NewSpecFromPersistentVolume(pv, false)))
		require.Empty(s, s.cluster.Files(sourceOf(pv)))
	}
	left := map[types.UID]bool{}
	for _, pod := range s.cluster.Pods() {
		left[pod.UID] = true
	}
	require.Equal(s, s.foreign, left, "foreign pods, and only they, are left")
	require.Zero(s, s.cluster.Watches())
}
