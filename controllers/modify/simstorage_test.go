package modify_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/modify"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A simStorage has the volume of a simulation, and checks the calls for it.
type simStorage struct {
	s  *simulation
	mu sync.Mutex
	*rand.Rand
	isCalm  bool
	refused string // no volume can have this class
	has     string // the class of the volume
	known   map[string]bool
	open    string          // the class of a call whose outcome is open. "": none
	isLost  bool            // that class was deleted since
	gone    map[string]bool // classes that do not exist
	isBusy  bool
	late    simtest.Late
}

func newSimStorage(s *simulation, seed uint64) *simStorage {
	r := rand.New(rand.NewPCG(seed, 2))
	return &simStorage{s: s, Rand: r, refused: append(classes, "")[r.IntN(len(classes)+1)], known: map[string]bool{}, gone: map[string]bool{}}
}

func (d *simStorage) Name(*v1.PersistentVolume) string { return driver }

func (d *simStorage) Modify(ctx context.Context, req modify.Request) error {
	select {
	case <-time.After(d.begin(req)):
	case <-ctx.Done():
	}
	err := d.end(req.Class, ctx.Err())
	d.s.Log("  modify %s: %v, %v", req.Class, err, volume.KindOf(err))
	return err
}

// begin checks a call, and returns its duration.
func (d *simStorage) begin(req modify.Request) time.Duration {
	claim, err := d.s.Cluster.PersistentVolumeClaims(namespace).Get(context.Background(), req.Claim.Name, metav1.GetOptions{})
	d.mu.Lock()
	defer d.mu.Unlock()
	if want := "iops of " + req.Class; req.Parameters["iops"] != want {
		d.s.Fail("class %s has the parameters %v", req.Class, req.Parameters)
	}
	if !d.s.hasTwins {
		if err == nil && (claim.Status.ModifyVolumeStatus == nil || claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName != req.Class) {
			d.s.Fail("a call for %s, and the target is %v", req.Class, claim.Status.ModifyVolumeStatus)
		}
		if d.isBusy {
			d.s.Fail("two calls at the same time")
		}
		if d.open != "" && d.open != req.Class && !d.isLost {
			d.s.Fail("a call for %s while the outcome of %s is open", req.Class, d.open)
		}
	}
	d.isBusy = true
	if d.isCalm || d.IntN(2) == 0 {
		return 0
	}
	return time.Duration(d.IntN(60)) * time.Second
}

var (
	errBroken  = errors.New("the storage is broken")
	errRefused = fmt.Errorf("no volume has this class: %w", volume.ErrInfeasible)
)

// end ends a call with an outcome at random.
func (d *simStorage) end(class string, ended error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isBusy = false
	outcome := 100
	if !d.isCalm {
		outcome = d.IntN(12)
	}
	if ended != nil {
		outcome = d.IntN(3)
	}
	isRefused := class == d.refused
	switch {
	case outcome <= 2:
		d.open, d.isLost = class, d.isLost && d.open == class || d.gone[class]
		if outcome == 1 && !isRefused {
			d.has = class
		}
		if outcome == 2 && !isRefused {
			d.late.Add(&d.mu, time.Duration(d.IntN(300))*time.Second, func() { d.has = class })
		}
		return volume.AsUncertain(errBroken)
	case outcome == 3:
		return volume.AsTransient(errBroken)
	}
	// This call ends what earlier ones have begun.
	d.late.End()
	d.open = ""
	switch {
	case outcome < 6:
		return errBroken
	case isRefused:
		return errRefused
	}
	d.has, d.known = class, map[string]bool{class: true}
	return nil
}

// lose records the deletion of a class.
func (d *simStorage) lose(class string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isLost, d.gone[class] = d.isLost || d.open == class, true
}

// restore records that a class exists.
func (d *simStorage) restore(class string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone[class] = false
}

// checkShown checks that an object shows a class that a call has given to the volume. A write can be late.
func (d *simStorage) checkShown(object string, class *string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if class != nil && len(d.known) == 0 {
		d.s.Fail("%s shows %s, which no call has given to the volume", object, *class)
	}
}

// class returns the class of the volume.
func (d *simStorage) class() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.has
}

// calm ends the failures.
func (d *simStorage) calm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isCalm, d.refused = true, ""
}
