package node_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
)

// simGuards are the code fragments that keep the invariants of a source, each with the code without
// it. The simulation fails without any one of them.
var simGuards = []testbed.Guard{
	{"a finished or deleted pod with containers is present", "podstate.go", "case !hasContainers(p.last.UID):", "case true:"},
	{"the manager sees a finished pod with containers as running", "podstate.go", "running.Status.Phase = v1.PodRunning", "running.Status.Phase = p.last.Status.Phase"},
	{"a local pod that was deleted during a restart is present", "podstate.go", "if s.podState(pod.UID) == nil {", "if false {"},
	{"the first list is awaited", "podstate.go", "for !synced() {", "for false {"},
	{"a pod ends when another pod has its name", "podstate.go", "if before != nil && !(now != nil && now.UID == before.UID) && s.ownsUID(before) {", "if before != nil && now == nil {"},
	{"a deleted pod without containers is forgotten", "podstate.go", "s.setPod(&podState{last: state.last, deleted: state.deleted})", "s.setPod(&podState{last: state.last})"},
	{"changed content is reported", "content.go", "s.subscribers.reportContent(pods)", "_ = pods"},
	{"the watch of an unused object ends", "objectset.go", "\tobject.stop()\n", ""},
	{"the watch of the volume of an unused claim ends", "objectset.go", `s.setVolumeOf(key, "")`, "_ = key"},
	{"the watch of an object lasts until its last user", "objectset.go", "if len(object.users) > 0 {", "if false {"},
	{"a list follows an expired version", "../api/objectwatch.go", "if errors.As(err, &status) && !apierrors.IsTooManyRequests(err) {", "if false && errors.As(err, &status) {"},
}

// tableGuards are those that tests of few steps find missing, see tableTests.
var tableGuards = []testbed.Guard{
	{"the first list is consistent", "source.go", "Consistent: true,", "Consistent: false,"},
	{"HasContainers is called with the lock of the pods", "podstate.go", "\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n\t// With mu: a pod that Pod returns after HasContainers has begun to return true stays present.\n\tstate.present = state.presentPod(s.config.HasContainers)\n",
		"\tstate.present = state.presentPod(s.config.HasContainers)\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n"},
	{"the first state is reported after a failed read", "content.go", "if change.Replay && !missed {", "if change.Replay {"},
	{"an unread object is not missing", "objectset.go", "case err != nil:", "case false:"},
	{"a mirror pod has the UID of its static pod", "mirrorpod.go", "static.UID = types.UID(pod.Annotations[v1.MirrorPodAnnotationKey])", "static.UID = types.UID(pod.UID)"},
	{"the UID of a static pod is the name of a directory", "mirrorpod.go", "string(static.UID)); err != nil {", "string(static.UID)); err != nil && false {"},
	{"a mirror pod replaces no other pod", "podstate.go", "case s.ownsUID(now):", "case true:"},
	{"a deleted mirror pod ends no other pod", "podstate.go", " && s.ownsUID(before)", ""},
}

const tableTests = "^(TestFirstListIsConsistent|TestContainersStartDuringDeletion|TestUnread|TestMirrorPods|TestMirrorPodsShareNoUID)$"

// TestGuardsAreThere: a guard that has been written in another way is still in the lists.
func TestGuardsAreThere(t *testing.T) {
	testbed.CheckGuards(t, simGuards)
	testbed.CheckGuards(t, tableGuards)
}

// TestSimulationFindsMissingGuards: without any one of simGuards the simulation fails within 1,000
// seeds, and without any one of tableGuards a test of few steps. "make mutants" runs it; MUTANTS in the
// environment is a part of the names of those to remove.
func TestSimulationFindsMissingGuards(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it compiles the package for each guard: VOLUMEKIT_LONG=1")
	}
	testbed.Mutants(t, testbed.Mutation{
		Guards: simGuards, Run: "^TestSimulation$", Env: []string{"VOLUMEKIT_SEEDS=1000"}, Says: "replay with VOLUMEKIT_SEED=",
	})
	testbed.Mutants(t, testbed.Mutation{Guards: tableGuards, Run: tableTests})
}
