package main

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// A killer kills processes at random times, and starts them again. All are killed about equally often.
type killer struct {
	cluster *processCluster
	random  *rand.Rand
	kills   int
	pause   time.Duration // the longest one before a kill
	// sparesAttached protects the control plane while disks are attached: a new control plane does not
	// detach a disk before 2 minutes have passed since its attach.
	sparesAttached bool

	// attached is read-locked while a disk may be attached, and locked by a kill that must not happen then.
	attached sync.RWMutex
}

// run kills until all kills are done, or ctx ends. The users take a step, at least, between two kills.
func (k *killer) run(ctx context.Context) {
	var order []int
	for n := range k.kills {
		if len(order) == 0 {
			order = k.random.Perm(len(k.cluster.processes))
		}
		victim := k.cluster.processes[order[0]]
		order = order[1:]
		steps := k.cluster.steps.Load()
		for isFirst := true; isFirst || k.cluster.steps.Load() == steps; isFirst = false {
			if !k.sleep(ctx, k.pause) {
				return
			}
		}
		k.kill(victim)
		k.cluster.logf("kill %d: the %s", n+1, victim.name)
		_ = k.sleep(ctx, k.pause/4) // the process starts also at the end of ctx
		if err := victim.start(); err != nil {
			k.cluster.Errorf("start the %s: %v", victim.name, err)
		}
	}
}

// kill kills a process, at once unless it has to be spared.
func (k *killer) kill(victim *process) {
	if k.sparesAttached && victim == k.cluster.plane {
		k.attached.Lock()
		defer k.attached.Unlock()
	}
	victim.kill()
}

// sleep sleeps for a random time up to the longest. It returns false if ctx ends first.
func (k *killer) sleep(ctx context.Context, longest time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(k.random.Int64N(int64(longest)))):
		return true
	}
}
