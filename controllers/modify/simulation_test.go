package modify_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/modify"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSimulation runs controllers with the API server in memory and a simulated storage, in a bubble of
// testing/synctest. A seed determines the steps and the faults.
//
// Steps: a user makes the claim name another class, an earlier one, or one that does not exist; classes are
// deleted and come back; the storage refuses classes, and fails with each kind of error, before, after and long
// after the effect; time passes; the controller crashes and starts again; in a fifth of the seeds two
// controllers run.
//
// Faults: calls to the API server and watches fail in each way of package apitest, and crash the process.
//
// Forbidden states: a class in the status of the claim, or in the volume, that the storage has not had at its
// last call with a known outcome. Forbidden calls: for a class that the claim does not have as its target; for
// another class while the outcome of a call is open, unless that class is gone; two at the same time. The rules
// hold for one controller.
//
// At the end faults stop, all classes exist, and the claim names one. Within an hour its volume has the class,
// as have the status and the storage of one controller, and no state or condition of a change is left. Then no
// call follows.
//
// VOLUMEKIT_SEEDS is the number of seeds to run, or their range (as 1000-2000); VOLUMEKIT_SEED is a
// seed to replay with its trace. The order of goroutines is not part of a seed: a failure may take
// several runs (-count) to appear again.
func TestSimulation(t *testing.T) {
	simtest.Simulate(t, simulate)
}

// A simulation is a cluster and a storage as a test changes them.
type simulation struct {
	*simtest.World
	storage  *simStorage
	hasTwins bool // two controllers run
}

var classes = []string{"a", "b", "c"}

// simulate runs a seed.
func simulate(w *simtest.World, seed uint64) {
	s := &simulation{World: w, hasTwins: seed%5 == 4}
	s.storage = newSimStorage(s, seed)
	s.run()
}

// run runs the steps, and ends the faults.
func (s *simulation) run() {
	s.Must(createPair(s.Context, s.Cluster))
	for _, name := range classes {
		s.createClass(name)
	}
	s.Start(s.controller())
	if s.hasTwins {
		s.Start(s.controller())
	}
	if s.Play(40+s.IntN(60), s.step, s.check) {
		s.calmDown()
	}
}

func (s *simulation) controller() simtest.Program {
	return simtest.Program{Identity: identity, Prepare: func() simtest.Main {
		config := modify.Config{
			Modifier: s.storage, Timeout: time.Duration(s.IntN(2)) * 30 * time.Second,
			Events: func(e api.Event) { s.Log("  event %s %s", e.Reason, e.Message) },
		}
		return func(ctx context.Context, cluster *apitest.Cluster) error {
			config.Cluster = cluster
			return simtest.Run(modify.New(config))(ctx)
		}
	}}
}

// step takes a step at random.
func (s *simulation) step() {
	switch n := s.IntN(100); {
	case n < 40:
		s.ask(append(classes, "none")[s.IntN(len(classes)+1)])
	case n < 48:
		s.toggleClass(classes[s.IntN(len(classes))])
	case n < 54:
		s.Restart()
	case n < 64:
		s.Disturb()
	case n < 74:
		s.Recover()
	default:
		s.Pass()
	}
}

// ask makes the claim name a class.
func (s *simulation) ask(class string) {
	s.Log("the claim names %s", class)
	claim := s.Claims()[0]
	claim.Spec.VolumeAttributesClassName = &class
	_, err := s.Cluster.PersistentVolumeClaims(namespace).Update(s.Context, &claim, metav1.UpdateOptions{})
	s.Tolerate(err)
}

// toggleClass deletes a class, or creates it again.
func (s *simulation) toggleClass(name string) {
	if !s.exists(name) {
		s.createClass(name)
		return
	}
	s.Log("delete class %s", name)
	s.storage.lose(name) // a controller may see it at once
	s.Must(s.Cluster.VolumeAttributesClasses().Delete(s.Context, name, metav1.DeleteOptions{}))
	s.storage.lose(name) // a call may have begun before
}

func (s *simulation) exists(name string) bool {
	_, err := s.Cluster.VolumeAttributesClasses().Get(s.Context, name, metav1.GetOptions{})
	return err == nil
}

func (s *simulation) createClass(name string) {
	s.Log("create class %s", name)
	s.storage.restore(name)
	_, err := s.Cluster.VolumeAttributesClasses().Create(s.Context, newClass(name, driver, "iops of "+name), metav1.CreateOptions{})
	s.Must(err)
}

// check checks that claim and volume show a class that the storage has had.
func (s *simulation) check() {
	pv := s.Volumes()[0]
	s.storage.checkShown("the claim", s.Claims()[0].Status.CurrentVolumeAttributesClassName)
	s.storage.checkShown("the volume", pv.Spec.VolumeAttributesClassName)
}

// calmDown ends the faults and checks the end of all work.
func (s *simulation) calmDown() {
	s.RecoverAll()
	s.Log("calm")
	s.storage.calm()
	for _, name := range classes {
		if !s.exists(name) {
			s.createClass(name)
		}
	}
	time.Sleep(10 * time.Minute) // the late effects
	s.RestartCrashed()
	s.ask("a")
	for range 6 {
		time.Sleep(10 * time.Minute)
		s.RestartCrashed()
		synctest.Wait()
		s.check()
	}
	s.checkEnd(s.Claims()[0], s.Volumes()[0])
	s.CheckIdle()
}

func (s *simulation) checkEnd(claim v1.PersistentVolumeClaim, pv v1.PersistentVolume) {
	shown := value(claim.Status.CurrentVolumeAttributesClassName) + " " + value(pv.Spec.VolumeAttributesClassName)
	if has := s.storage.class(); shown != "a a" || has != "a" && !s.hasTwins {
		s.Fail("the claim names a; claim and volume have %s, the storage %s: %v", shown, has, claim.Status)
	}
	if claim.Status.ModifyVolumeStatus != nil || len(claim.Status.Conditions) > 0 {
		s.Fail("the change has not ended: %v", claim.Status)
	}
}
