package simtest

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A World is a cluster in memory, with programs in processes that crash.
type World struct {
	*Faults
	// Context ends with the seed.
	Context context.Context
	// Cluster is the connection of the test. Faults do not concern it.
	Cluster api.Cluster

	running []instance
	ends    []func()
}

// A Program is a program that crashes and starts again.
type Program struct {
	Identity string
	// Prepare chooses the configuration of the next run.
	Prepare func() Main
}

// A Main is the main function of a program. It returns soon after its context ends.
type Main func(context.Context, *apitest.Cluster) error

// Run returns a function that runs a new controller, or returns the error of its constructor.
func Run(controller interface{ Run(context.Context) error }, err error) func(context.Context) error {
	if err != nil {
		return func(context.Context) error { return err }
	}
	return controller.Run
}

type instance struct {
	*Process
	program Program
}

// newWorld returns an empty cluster for a seed, with the faults of the API server and crashes to choose from.
func newWorld(ctx context.Context, seed uint64) *World {
	server := apitest.NewServer(apitest.Config{Seed: seed})
	all := append(OfServer(), Crashes()...)
	return &World{
		Faults:  &Faults{Rand: rand.New(rand.NewPCG(seed, 1)), Trace: NewTrace(), Server: server, All: all},
		Context: ctx, Cluster: server.Direct(),
	}
}

// Start starts a program in a process of its own.
func (w *World) Start(p Program) {
	w.Log("start the %s", p.Identity)
	w.running = append(w.running, instance{StartProcess(w.Context, w.Server, p.Identity, p.Prepare()), p})
}

// Restart crashes one of the running processes and starts its program again.
func (w *World) Restart() {
	i := 0
	if n := len(w.running); n > 1 {
		i = w.IntN(n)
	}
	w.Start(w.crash(i))
}

// RestartCrashed starts the programs again whose process a fault has crashed.
func (w *World) RestartCrashed() {
	for {
		i := slices.IndexFunc(w.running, func(i instance) bool { return i.HasCrashed() })
		if i < 0 {
			return
		}
		w.Start(w.crash(i))
	}
}

// AtEnd calls a function after the end of the processes.
func (w *World) AtEnd(f func()) { w.ends = append(w.ends, f) }

// end ends the processes, and then calls the functions of AtEnd.
func (w *World) end() {
	for len(w.running) > 0 {
		w.crash(0)
	}
	for _, f := range w.ends {
		f()
	}
}

func (w *World) crash(i int) Program {
	ended := w.running[i]
	w.running = slices.Delete(w.running, i, i+1)
	w.Log("crash the %s", ended.program.Identity)
	w.Must(ended.Crash())
	return ended.program
}

// Claims returns all claims.
func (w *World) Claims() []v1.PersistentVolumeClaim {
	list, err := w.Cluster.PersistentVolumeClaims("").List(w.Context, metav1.ListOptions{})
	w.Must(err)
	return list.Items
}

// Volumes returns all volumes.
func (w *World) Volumes() []v1.PersistentVolume {
	list, err := w.Cluster.PersistentVolumes().List(w.Context, metav1.ListOptions{})
	w.Must(err)
	return list.Items
}

// Pods returns all pods.
func (w *World) Pods() []v1.Pod {
	list, err := w.Cluster.Pods("").List(w.Context, metav1.ListOptions{})
	w.Must(err)
	return list.Items
}

// Tolerate fails for an error that no concurrent write explains, and reports whether there is no error.
func (w *World) Tolerate(err error) (isDone bool) {
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
		w.Must(err)
	}
	return err == nil
}

// Pass lets up to a minute or an hour pass.
func (w *World) Pass() {
	d := time.Duration(1+w.IntN(60)) * []time.Duration{time.Second, time.Second, time.Minute}[w.IntN(3)]
	w.Log("%v pass", d)
	time.Sleep(d)
}

// One returns an element at random, or false.
func One[T any](r *rand.Rand, all []T) (element T, ok bool) {
	if len(all) == 0 {
		return element, false
	}
	return all[r.IntN(len(all))], true
}

// CheckIdle fails for the first call within an hour, apart from the watches and lists of caches.
func (w *World) CheckIdle() {
	w.Server.ForgetCalls()
	time.Sleep(time.Hour)
	for _, call := range w.Server.Calls(apitest.Call{}) {
		if call.Verb != apitest.Watch && (call.Verb != apitest.List || call.Namespace != "") {
			w.Fail("an idle controller calls: %s", call)
			return
		}
	}
}
