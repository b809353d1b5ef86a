package provision_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simStorage is a storage whose calls fail. Storage can come to exist after its call has failed.
type simStorage struct {
	s    *simulation
	seed uint64

	mu        sync.Mutex
	moves     int                  // of its address
	volumes   map[string]types.UID // the claims of the volumes
	pending   map[string]*simtest.Late
	abandoned map[string]bool // by users: no object has to lead to them
	calls     map[string]uint64
	isHealthy bool
	running   sync.WaitGroup // creations in the background
}

func newSimStorage(s *simulation, seed uint64) *simStorage {
	return &simStorage{s: s, seed: seed, volumes: map[string]types.UID{}, pending: map[string]*simtest.Late{}, abandoned: map[string]bool{}, calls: map[string]uint64{}}
}

var errSim = errors.New("injected")

// A simCall is the course of one call.
type simCall struct {
	delay time.Duration
	early error // before the effect
	late  error // after the effect
	panic bool
	// isRefused makes the storage one that the claim cannot have.
	isRefused bool
	// later is the time of the effect after the call has failed.
	later time.Duration
}

// course returns the course of the next call for a volume. It depends on the seed, the volume and the
// number of calls for it.
func (f *simStorage) course(verb, name string) (c simCall) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.calls[verb+name]
	f.calls[verb+name]++
	if f.isHealthy {
		return simCall{delay: 200 * time.Millisecond}
	}
	var h uint64 = 14695981039346656037
	for _, b := range []byte(verb + name) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	r := rand.New(rand.NewPCG(f.seed, h+n))
	c.delay = time.Duration(r.IntN(3)) * time.Duration(r.IntN(30)) * time.Second
	_, exists := f.volumes[name]
	isCertain := !exists && f.pending[name] == nil
	switch r.IntN(14) {
	case 0:
		c.early = volume.AsTransient(errSim)
	case 1:
		c.early = volume.AsUncertain(errSim)
	case 2:
		c.late = volume.AsUncertain(errSim)
	case 3:
		c.late = context.DeadlineExceeded
	case 4:
		c.early, c.later = volume.AsUncertain(errSim), time.Duration(1+r.IntN(20))*time.Minute
	case 5:
		c.delay = time.Hour // until the timeout
	case 6:
		c.panic = true
	case 7, 8:
		if verb == "delete" || isCertain {
			c.early = errSim
		}
	case 9:
		if verb == "provision" && isCertain {
			c.early = []error{fmt.Errorf("%w: %w", errSim, volume.ErrInfeasible), fmt.Errorf("%w: %w", errSim, volume.ErrReschedule), &volume.IgnoredError{Reason: "injected"}}[r.IntN(3)]
		}
	case 10:
		c.isRefused = verb == "provision"
	}
	return c
}

// sleep waits for the delay of a call. The effect of a call whose context ends may follow.
func sleep(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *simStorage) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	c := f.course("provision", o.PVName)
	f.s.Log("  provision %s: %+v", o.PVName, c)
	if err := sleep(ctx, c.delay); err != nil {
		return nil, err
	}
	if c.early != nil {
		f.createLater(o, c.later)
		return nil, c.early
	}
	f.create(o.PVName, o.PVC.UID)
	if f.s.hasTwins { // the other one may delete the storage
		if err := sleep(ctx, c.delay); err != nil {
			return nil, err
		}
	}
	switch {
	case c.panic:
		panic("injected")
	case c.late != nil:
		return nil, c.late
	}
	pv := &v1.PersistentVolume{}
	pv.Annotations = map[string]string{volume.StorageAnnotation: f.name()}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: f.address(), Path: "/" + o.PVName}
	if c.isRefused {
		return pv, &provision.RefusalError{Err: errSim}
	}
	return pv, nil
}

// name returns the name of the storage, which a move does not change.
func (f *simStorage) name() string { return fmt.Sprint("storage-", f.seed) }

// address returns the present address.
func (f *simStorage) address() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprintf("%s-%d", f.name(), f.moves)
}

// move moves the storage to another address. Its volumes are unknown until it heals, which stands for the aliases that an
// administrator configures.
func (f *simStorage) move() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moves++
}

// serves reports whether a volume has an address of the storage.
func (f *simStorage) serves(pv *v1.PersistentVolume) bool {
	present := f.address()
	f.mu.Lock()
	defer f.mu.Unlock()
	return pv.Spec.NFS.Server == present || f.isHealthy && pv.Annotations[volume.StorageAnnotation] == f.name()
}

// create creates the storage of a volume.
func (f *simStorage) create(name string, uid types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(name, uid)
}

// set records the storage of a volume. It requires mu.
func (f *simStorage) set(name string, uid types.UID) {
	f.cancel(name)
	f.volumes[name] = uid
}

// createLater creates the storage of a volume after a time, unless it is deleted before.
func (f *simStorage) createLater(o provision.Options, later time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, exists := f.volumes[o.PVName]; exists || later == 0 || f.pending[o.PVName] != nil {
		return
	}
	f.running.Add(1)
	late := &simtest.Late{}
	f.pending[o.PVName] = late
	late.Add(&f.mu, later, func() {
		f.s.Log("  created %s in the background", o.PVName)
		f.set(o.PVName, o.PVC.UID)
	})
}

// cancel ends the creation of a volume in the background. It requires mu.
func (f *simStorage) cancel(name string) {
	if late := f.pending[name]; late != nil {
		late.End()
		delete(f.pending, name)
		f.running.Done()
	}
}

func (f *simStorage) Delete(ctx context.Context, pv *v1.PersistentVolume) error {
	if !f.serves(pv) {
		return &volume.IgnoredError{Reason: "another server"}
	}
	c := f.course("delete", pv.Name)
	f.s.Log("  delete %s of %s: %+v", pv.Name, f.name(), c)
	f.s.checkDeletion(pv, f)
	if err := sleep(ctx, c.delay); err != nil {
		return err
	}
	if c.early != nil {
		return c.early
	}
	f.mu.Lock()
	f.cancel(pv.Name)
	delete(f.volumes, pv.Name)
	f.mu.Unlock()
	if c.panic {
		panic("injected")
	}
	return c.late
}

// heal ends the faults.
func (f *simStorage) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isHealthy = true
}

// wait waits for the creations in the background.
func (f *simStorage) wait() { f.running.Wait() }

// all returns the names of the volumes that exist or come to exist, with their claims.
func (f *simStorage) all() map[string]types.UID {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := map[string]types.UID{}
	for name := range f.pending {
		all[name] = ""
	}
	for name, uid := range f.volumes {
		all[name] = uid
	}
	return all
}

// has reports whether the storage of a volume exists.
func (f *simStorage) has(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.volumes[name]
	return ok
}

func (f *simStorage) abandon(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.abandoned[name] = true
}

func (f *simStorage) isAbandoned(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.abandoned[name]
}
