package attach_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simStorage records to which nodes each disk is attached, and checks the calls for it.
type simStorage struct {
	s  *simulation
	mu sync.Mutex
	*rand.Rand
	isCalm   bool
	isFenced bool // an exclusive disk on another node is refused, with the node
	attached map[string]map[string]bool
	late     map[string]*simtest.Late // by disk and node
}

var errBroken = errors.New("the storage is broken")

func newSimStorage(s *simulation, seed uint64) *simStorage {
	return &simStorage{
		s: s, Rand: rand.New(rand.NewPCG(seed, 2)), isFenced: seed%3 == 0,
		attached: map[string]map[string]bool{}, late: map[string]*simtest.Late{},
	}
}

// nodesOf returns the nodes that a disk is attached to, sorted.
func (d *simStorage) nodesOf(disk string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.attached[disk]))
}

func (d *simStorage) isAttached(disk, node string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.attached[disk][node]
}

// set records the effect of an attach. The mutex is locked.
func (d *simStorage) set(disk, node string) {
	for other := range d.attached[disk] {
		if other != node && d.s.isExclusive(disk) {
			d.s.Fail("%s is attached to %s and to %s", disk, other, node)
		}
	}
	if d.attached[disk] == nil {
		d.attached[disk] = map[string]bool{}
	}
	if !d.attached[disk][node] {
		d.s.Log("  storage: %s is on %s", disk, node)
	}
	d.attached[disk][node] = true
}

// clear records the effect of a detach. The mutex is locked.
func (d *simStorage) clear(disk, node string) {
	if d.attached[disk][node] {
		d.s.Log("  storage: %s leaves %s", disk, node)
	}
	delete(d.attached[disk], node)
}

// attachCSI is ControllerPublishVolume.
func (d *simStorage) attachCSI(va *storagev1.VolumeAttachment) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isCalm && d.IntN(5) == 0 {
		return errBroken
	}
	d.set(*va.Spec.Source.PersistentVolumeName, va.Spec.NodeName)
	if !d.isCalm && d.IntN(6) == 0 {
		return errBroken
	}
	return nil
}

// detachCSI is ControllerUnpublishVolume.
func (d *simStorage) detachCSI(va *storagev1.VolumeAttachment) error {
	d.s.checkDeletion(va)
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isCalm && d.IntN(5) == 0 {
		return errBroken
	}
	d.clear(*va.Spec.Source.PersistentVolumeName, va.Spec.NodeName)
	return nil
}

// plugin returns the plugin of a process, whose calls have no effect after the end of ctx, apart from late
// effects of earlier calls.
func (d *simStorage) plugin(process context.Context) *diskPlugin {
	return &diskPlugin{
		attach: func(ctx context.Context, disk string, node types.NodeName) (string, error) {
			return "/dev/" + disk, d.call(process, ctx, disk, string(node), true)
		},
		detach: func(ctx context.Context, disk string, node types.NodeName) error {
			d.s.checkDetach(disk, string(node), time.Now())
			return d.call(process, ctx, disk, string(node), false)
		},
	}
}

// call is one call of the plugin.
func (d *simStorage) call(process, ctx context.Context, disk, node string, isAttach bool) error {
	d.mu.Lock()
	var delay time.Duration
	if !d.isCalm && d.IntN(2) == 0 {
		delay = time.Duration(d.IntN(60)) * time.Second
	}
	d.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.end(process, ctx, disk, node, isAttach)
	d.s.Log("  plugin: attach=%v %s %s: %v, %v", isAttach, disk, node, err, volume.KindOf(err))
	return err
}

// end ends a call with an outcome at random.
func (d *simStorage) end(process, ctx context.Context, disk, node string, isAttach bool) error {
	if process.Err() != nil {
		return process.Err()
	}
	key, effect := disk+" "+node, func() { d.set(disk, node) }
	if !isAttach {
		effect = func() { d.clear(disk, node) }
	}
	outcome := 100
	if !d.isCalm {
		outcome = d.IntN(20)
	}
	if ctx.Err() != nil {
		outcome = d.IntN(3)
	}
	if other := d.elsewhere(disk, node); isAttach && d.isFenced && other != "" && outcome > 3 {
		return &volume.DanglingAttachError{CurrentNode: types.NodeName(other)}
	} else if isAttach && d.isFenced && other != "" {
		return volume.AsTransient(errBroken)
	}
	switch {
	case outcome == 0: // before the effect
		return volume.AsUncertain(errBroken)
	case outcome == 1: // after the effect
		effect()
		return volume.AsUncertain(errBroken)
	case outcome == 2: // before a late effect
		d.lateOf(key).Add(&d.mu, time.Duration(d.IntN(600))*time.Second, effect)
		return volume.AsUncertain(errBroken)
	case outcome == 3:
		return volume.AsTransient(errBroken)
	}
	// This call ends what earlier ones have begun.
	d.lateOf(key).End()
	if outcome < 7 {
		if d.attached[disk][node] == isAttach {
			return nil
		}
		return fmt.Errorf("attach=%v: %w", isAttach, errBroken)
	}
	effect()
	return nil
}

// lateOf returns the late effects for a disk and a node.
func (d *simStorage) lateOf(key string) *simtest.Late {
	late := d.late[key]
	if late == nil {
		late = &simtest.Late{}
		d.late[key] = late
	}
	return late
}

// elsewhere returns another node that an exclusive disk is attached to.
func (d *simStorage) elsewhere(disk, node string) string {
	for other := range d.attached[disk] {
		if other != node && d.s.isExclusive(disk) {
			return other
		}
	}
	return ""
}

// calm ends the failures.
func (d *simStorage) calm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isCalm = true
}

// stop ends the timers.
func (d *simStorage) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, late := range d.late {
		late.End()
	}
}
