package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/volumekit/volumekit/internal/endstates"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

const (
	// quiet is the time without a change after which a state is the end state: longer than the pause after some
	// failures.
	quiet = 8 * time.Second
	// comparisonTime limits all situations of a comparison.
	comparisonTime = 8 * time.Minute
)

// comparedFlags are flags of both programs: the longest pause before a repetition, and the longest time of a call.
var comparedFlags = []string{"--retry-interval-max=10s", "--timeout=5s"}

// A comparison takes the same steps on one API server with a program of the Kubernetes project, and on another one with
// this program, each with a driver of its own. The end states are equal, but for the differences that are explained. It
// needs the other program ("make sidecars"), and writes the end states to a file whose name begins with the variable
// VOLUMEKIT_SITUATIONS. S is the type of the scenes.
type comparison[S stage] struct {
	peer          kubeserver.Sidecar
	situations    map[string]func(S) // take place at the same time
	interruptions map[string]interruption[S]
	differences   map[string]string // the reasons, by the situations whose end states differ

	open  func(*arena) (newScene func(name string) S) // serves the driver of an arena
	probe func(S)                                     // steps with which the state contains sign once the program works
	sign  string
}

// An interruption is a situation with steps before the program stops, while it is stopped, and after it has started
// again. Nil: none.
type interruption[S stage] struct{ before, stopped, after func(S) }

// A stage is a scene.
type stage interface {
	settle()
	state() string
}

// leastSituations are the least numbers of situations, by the tests.
var leastSituations = map[string]int{"TestKubeAttachSituations": 125, "TestKubeDriftSituations": 11, "TestKubeExpandSituations": 50}

// run compares the end states.
func (k comparison[S]) run(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it takes minutes: VOLUMEKIT_LONG=1")
	}
	peer, err := k.peer.Find()
	if errors.Is(err, fs.ErrNotExist) {
		mounttest.SkipWithout(t, strings.TrimPrefix(k.peer.Name, "csi-"), err)
	}
	require.NoError(t, err)
	var ours, theirs map[string]string
	t.Run("both", func(t *testing.T) {
		t.Run("ours", func(t *testing.T) {
			t.Parallel()
			ours = k.endStates(newArena(t), (*arena).startOurs)
		})
		t.Run("theirs", func(t *testing.T) {
			t.Parallel()
			theirs = k.endStates(newArena(t), func(a *arena) func() { return a.startPeer(peer) })
		})
	})
	endstates.Comparison{Ours: ours, Theirs: theirs, Peer: k.peer.Name, Differences: k.differences, Least: leastSituations[t.Name()]}.Require(t)
}

// endStates returns the end states of all situations with the program that start starts.
func (k comparison[S]) endStates(a *arena, start func(*arena) (stop func())) map[string]string {
	newScene, states := k.open(a), map[string]string{}
	stop := start(a)
	k.awaitProgram(a, newScene("probe"))
	scenes, interrupted := newScenes(newScene, "s", k.situations), newScenes(newScene, "i", k.interruptions)
	var playing sync.WaitGroup
	for name, c := range scenes {
		playing.Go(func() { play(c, k.situations[name]) })
	}
	for name, c := range interrupted {
		playing.Go(func() { play(c, k.interruptions[name].before) })
	}
	playing.Wait()
	k.record(a, scenes, states)
	stop()
	for name, c := range interrupted {
		take(c, k.interruptions[name].stopped)
	}
	stop = start(a)
	k.awaitProgram(a, newScene("again"))
	for name, c := range interrupted {
		playing.Go(func() { play(c, k.interruptions[name].after) })
	}
	playing.Wait()
	k.record(a, interrupted, states)
	stop()
	require.NoError(a, a.ctx.Err(), "the situations did not end within %v", comparisonTime)
	require.Len(a, states, len(k.situations)+len(k.interruptions))
	return states
}

// newScenes returns a scene for each situation, by name.
func newScenes[S, T any](newScene func(string) S, prefix string, situations map[string]T) map[string]S {
	scenes := map[string]S{}
	for n, name := range slices.Sorted(maps.Keys(situations)) {
		scenes[name] = newScene(fmt.Sprint(prefix, n))
	}
	return scenes
}

// awaitProgram waits until the program works: on a busy machine it needs some time to start.
func (k comparison[S]) awaitProgram(a *arena, c S) {
	k.probe(c)
	a.await(func() bool { return strings.Contains(c.state(), k.sign) })
}

// record adds the end states of scenes to states once none of them has changed for a while: on a busy machine, events
// come late.
func (k comparison[S]) record(a *arena, scenes map[string]S, states map[string]string) {
	for last, since := "", time.Now(); a.ctx.Err() == nil && time.Since(since) < 2*quiet; time.Sleep(quiet / 10) {
		var all strings.Builder
		for _, name := range slices.Sorted(maps.Keys(scenes)) {
			states[name] = scenes[name].state()
			all.WriteString(states[name])
		}
		if now := all.String(); now != last {
			last, since = now, time.Now()
		}
	}
}

// play takes steps, and waits for their end.
func play[S stage](c S, steps func(S)) {
	take(c, steps)
	c.settle()
}

// take takes steps, unless there are none.
func take[S stage](c S, steps func(S)) {
	if steps != nil {
		steps(c)
	}
}

// An arena is an API server on which situations take place at the same time, with a driver.
type arena struct {
	*testing.T
	ctx    context.Context
	server *kubeserver.Server
	admin  *kubernetes.Clientset
	socket string // of the driver

	looking sync.Mutex
	seen    snapshot
}

func newArena(t *testing.T) *arena {
	t.Helper()
	server := kubeserver.Start(t)
	admin, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), comparisonTime)
	t.Cleanup(cancel)
	return &arena{T: t, ctx: ctx, server: server, admin: admin, socket: filepath.Join(testbed.Dir(t), "s")}
}

// startOurs starts this program.
func (a *arena) startOurs() (stop func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	kubeconfig, err := a.server.WriteKubeconfig(a.TempDir())
	require.NoError(a, err)
	flags := append([]string{"--csi-address=" + a.socket, "--kubeconfig=" + kubeconfig}, comparedFlags...)
	o, err := parseOptions(flags, func(string) string { return "" }, io.Discard)
	require.NoError(a, err)
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, o, io.Discard) }()
	return sync.OnceFunc(func() {
		cancel()
		require.NoError(a, <-ended)
	})
}

// startPeer starts a program of the Kubernetes project.
func (a *arena) startPeer(peer string) (stop func()) {
	program, err := a.server.StartSidecar(peer, a.socket, comparedFlags...)
	require.NoError(a, err)
	return sync.OnceFunc(func() { program.Stop() })
}

// await waits for a condition.
func (a *arena) await(isMet func() bool) {
	for a.ctx.Err() == nil && !isMet() {
		time.Sleep(200 * time.Millisecond)
	}
}

// wait waits for two repetitions of a failed step.
func (a *arena) wait() {
	select {
	case <-a.ctx.Done():
	case <-time.After(25 * time.Second):
	}
}

// A snapshot holds all objects that situations describe, at about one time. One list for each situation would keep the
// machine busy.
type snapshot struct {
	at          time.Time // of the begin
	claims      []v1.PersistentVolumeClaim
	volumes     []v1.PersistentVolume
	attachments []attachmentObject
	events      []v1.Event
}

// snapshot returns a state of the API server that is hardly older than the call.
func (a *arena) snapshot() snapshot {
	a.looking.Lock()
	defer a.looking.Unlock()
	if time.Since(a.seen.at) < quiet/30 {
		return a.seen
	}
	a.seen.at = time.Now()
	core, all := a.admin.CoreV1(), metav1.ListOptions{}
	if list, err := core.PersistentVolumeClaims("").List(a.ctx, all); err == nil {
		a.seen.claims = list.Items
	}
	if list, err := core.PersistentVolumes().List(a.ctx, all); err == nil {
		a.seen.volumes = list.Items
	}
	if list, err := listAttachments(a.ctx, a.admin); err == nil {
		a.seen.attachments = list
	}
	if list, err := core.Events("").List(a.ctx, all); err == nil {
		a.seen.events = list.Items
	}
	return a.seen
}

// A scene is the place of one situation: a namespace, and other objects of its name. The scenes of a comparison embed
// it.
type scene struct {
	*arena
	name     string
	describe func() []string // the states of the objects and of the driver
}

// newScene returns a scene with a namespace.
func (a *arena) newScene(name string, describe func() []string) *scene {
	c := &scene{a, name, describe}
	_, err := a.admin.CoreV1().Namespaces().Create(a.ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	c.must(err)
	return c
}

// must fails the situation if a call has failed.
func (c *scene) must(err error) {
	if err != nil && c.ctx.Err() == nil {
		c.Errorf("%s: %v", c.name, err)
	}
}

// settle waits until the state of the scene has not changed for a while.
func (c *scene) settle() {
	for last, since := "", time.Now(); c.ctx.Err() == nil && time.Since(since) < quiet; time.Sleep(quiet / 30) {
		if now := c.state(); now != last {
			last, since = now, time.Now()
		}
	}
}

// state returns the state of the scene as text.
func (c *scene) state() string { return strings.Join(c.describe(), "\n") + "\n" }
