package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/endstates"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A comparison takes the same steps on one API server with kube-controller-manager, and on another one with this
// control plane. The end states are equal, but for the differences that are explained. It needs
// kube-controller-manager ("make manager"), and writes the end states to a file whose name begins with the
// variable VOLUMEKIT_SITUATIONS.
type comparison struct {
	controllers []string
	arguments   []string // of kube-controller-manager
	// situations take place at the same time, those of alone one after the other.
	situations, alone map[string]func(*scene)
	// interrupted are situations in which the controllers restart. They take place at the same time as situations.
	interrupted map[string]interruption
	differences map[string]string // the reasons, by the situations whose end states differ
	least       int               // the least number of situations

	prepare  func(*scene) // creates objects before the controllers start
	probe    func(*scene) // steps with which the end state contains sign once the controllers work
	sign     string
	describe func(*scene) []string
	quiet    time.Duration // the time without a change after which a state is the end state
	waits    bool          // the machine has time for both controllers at once
	age      time.Duration // of the prepared objects when the controllers start
	helpers  []func(*arena, context.Context) error
	tidy     func(*scene) // removes the objects that later situations would see; nil: none
}

// An interruption is a situation with steps before the controllers stop, while they are stopped, and after
// they have started again. Nil: none.
type interruption struct{ before, stopped, after func(*scene) }

// run compares the end states.
func (k comparison) run(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it takes minutes: VOLUMEKIT_LONG=1")
	}
	program, err := kubeserver.FindControllerManager()
	if errors.Is(err, fs.ErrNotExist) {
		mounttest.SkipWithout(t, "manager", err)
	}
	require.NoError(t, err)
	var ours, theirs map[string]string
	t.Run("both", func(t *testing.T) {
		t.Run("ours", func(t *testing.T) {
			k.parallel(t)
			ours = k.endStates(t, func(a *arena) func() {
				p, err := newPlane(options{controllers: k.controllers}, a.connections, io.Discard)
				require.NoError(t, err)
				return a.start(p.run)
			})
		})
		t.Run("theirs", func(t *testing.T) {
			k.parallel(t)
			theirs = k.endStates(t, func(a *arena) func() {
				manager, err := a.server.StartControllerManager(program, k.controllers, k.arguments...)
				require.NoError(t, err)
				return sync.OnceFunc(func() { manager.Stop() })
			})
		})
	})
	endstates.Comparison{Ours: ours, Theirs: theirs, Peer: "kube-controller-manager", Differences: k.differences, Least: k.least}.Require(t)
}

// parallel runs a test at the same time as the other one, if the situations consist of waiting.
func (k comparison) parallel(t *testing.T) {
	if k.waits {
		t.Parallel()
	}
}

// An arena is an API server on which situations take place at the same time.
type arena struct {
	*testing.T
	comparison
	ctx         context.Context
	server      *kubeserver.Server
	clientset   *kubernetes.Clientset
	drivers     csiBehaviors
	cluster     api.Cluster
	connections parts
	done        sync.WaitGroup
	scenes      map[string]*scene // by the names of the situations
	states      map[string]string // the end states
	seen        snapshots
}

// newArena starts an API server.
func (k comparison) newArena(ctx context.Context, t *testing.T) *arena {
	t.Helper()
	s := kubeserver.Start(t)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: s.URL, BearerToken: s.Token, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}, QPS: -1})
	require.NoError(t, err)
	recorder := kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: "controlplane"})
	cluster := kubeclient.New(clientset)
	return &arena{
		T: t, comparison: k, ctx: ctx, server: s, clientset: clientset, cluster: cluster,
		connections: parts{cluster: cluster, announce: kubeclient.Events(recorder)},
		scenes:      map[string]*scene{}, states: map[string]string{},
	}
}

// start runs a part until stop is called, or until the end of the arena.
func (a *arena) start(part func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	ended := make(chan struct{})
	a.done.Go(func() {
		defer close(ended)
		if err := part(ctx); err != nil {
			a.Error(err)
		}
	})
	return func() {
		cancel()
		<-ended
	}
}

// comparisonTime limits all situations of a comparison.
const comparisonTime = 10 * time.Minute

// endStates returns the end states of all situations with the controllers that start starts.
func (k comparison) endStates(t *testing.T, start func(*arena) (stop func())) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), comparisonTime)
	a := k.newArena(ctx, t)
	defer a.done.Wait()
	defer cancel()
	prepared := time.Now()
	for n, name := range k.names() {
		a.scenes[name] = a.newScene(fmt.Sprint("s", n))
	}
	for _, help := range k.helpers {
		a.start(func(ctx context.Context) error { return help(a, ctx) })
	}
	time.Sleep(k.age - time.Since(prepared))
	stop := start(a)
	a.awaitControllers("probe")
	a.playTogether()
	if len(k.interrupted) > 0 {
		stop()
		a.interrupt()
		stop = start(a)
		a.awaitControllers("probe-again")
		a.resume()
	}
	for _, name := range slices.Sorted(maps.Keys(k.alone)) {
		a.scenes[name].play(k.alone[name])
		a.record(name)
		k.tidy(a.scenes[name])
	}
	stop()
	require.NoError(t, ctx.Err(), "the situations did not end within %v", comparisonTime)
	require.Len(t, a.states, len(k.names()))
	return a.states
}

// playTogether plays the situations that take place at the same time, and the first parts of those that are interrupted.
func (a *arena) playTogether() {
	var playing sync.WaitGroup
	for name, steps := range a.situations {
		playing.Go(func() { a.scenes[name].play(steps) })
	}
	for name, interruption := range a.interrupted {
		playing.Go(func() { a.scenes[name].play(interruption.before) })
	}
	playing.Wait()
	a.record(slices.Collect(maps.Keys(a.situations))...)
}

// interrupt takes the steps without controllers.
func (a *arena) interrupt() {
	for name, interruption := range a.interrupted {
		a.scenes[name].take(interruption.stopped)
	}
}

// resume plays the last parts of the situations that were interrupted.
func (a *arena) resume() {
	var playing sync.WaitGroup
	for name, interruption := range a.interrupted {
		playing.Go(func() { a.scenes[name].play(interruption.after) })
	}
	playing.Wait()
	a.record(slices.Collect(maps.Keys(a.interrupted))...)
}

// record keeps the end states of situations once none of them has changed for a while: on a busy machine, events come
// late.
func (a *arena) record(names ...string) {
	for last, since := "", time.Now(); a.ctx.Err() == nil && time.Since(since) < 2*a.quiet; time.Sleep(a.quiet / 10) {
		var all strings.Builder
		for _, name := range slices.Sorted(slices.Values(names)) {
			a.states[name] = a.scenes[name].state()
			all.WriteString(a.states[name])
		}
		if now := all.String(); now != last {
			last, since = now, time.Now()
		}
	}
}

// names returns the names of all situations, those that take place alone last.
func (k comparison) names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(k.situations)), maps.Keys(k.interrupted))
	slices.Sort(names)
	return append(names, slices.Sorted(maps.Keys(k.alone))...)
}

// newScene returns a scene with its prepared objects.
func (a *arena) newScene(name string) *scene {
	c := &scene{a, name + "-", "scene-" + name}
	c.must(a.clientset.CoreV1().Namespaces().Create(a.ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.namespace}}, metav1.CreateOptions{}))
	a.prepare(c)
	return c
}

// awaitControllers waits until the controllers work: on a busy machine they need some time to start.
func (a *arena) awaitControllers(name string) {
	c := a.newScene(name)
	a.probe(c)
	for a.ctx.Err() == nil && !strings.Contains(c.state(), a.sign) {
		time.Sleep(200 * time.Millisecond)
	}
}

// play takes steps, and returns the end state.
func (c *scene) play(steps func(*scene)) string {
	c.settle()
	c.take(steps)
	return c.settle()
}

// take takes steps, unless there are none.
func (c *scene) take(steps func(*scene)) {
	if steps != nil {
		steps(c)
	}
}
