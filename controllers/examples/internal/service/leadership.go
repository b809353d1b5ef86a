package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The periods of a Lease are those of Kubernetes' own controllers.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// A Leadership runs work while this process holds a Lease.
type Leadership struct {
	config leaderelection.LeaderElectionConfig
	health *leaderelection.HealthzAdaptor
}

// NewLeadership returns the leadership by the Lease of a namespace and a name, in which a slash becomes a
// dash. It makes no call.
func NewLeadership(leases coordinationv1.LeasesGetter, namespace, name string) (*Leadership, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	health := leaderelection.NewLeaderHealthzAdaptor(leaseDuration)
	return &Leadership{health: health, config: leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName(name)},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true, WatchDog: health, Name: name,
	}}, nil
}

// leaseName returns the name of a Lease as provisioners name it for themselves.
func leaseName(name string) string { return strings.ReplaceAll(name, "/", "-") }

// Lead calls work whenever this process acquires the Lease, and ends the context of work when the
// Lease could not be renewed in time, before the Lease expires. It returns the error of work, or nil
// after ctx ends. It releases the Lease only after work has returned.
func (l *Leadership) Lead(ctx context.Context, work func(context.Context) error) error {
	for ctx.Err() == nil {
		if err := l.leadOnce(ctx, work); err != nil {
			return err
		}
	}
	return nil
}

// A term is the time from an election to the loss of the Lease.
type term struct {
	mu    sync.Mutex
	over  bool          // before work began
	ended chan struct{} // closed when work has returned; nil before it begins
	lost  *time.Timer   // ends the context of work
	err   error         // of work
}

func (l *Leadership) leadOnce(ctx context.Context, work func(context.Context) error) error {
	// The election outlives ctx until work has returned: its end releases the Lease.
	election, endElection := context.WithCancel(context.WithoutCancel(ctx))
	defer endElection()
	var t term
	config := l.config
	config.Lock = termLock{config.Lock, &t}
	config.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(leading context.Context) {
			defer endElection()
			t.run(ctx, leading, work)
		},
		OnStoppedLeading: func() {},
	}
	elector, err := leaderelection.NewLeaderElector(config)
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	l.health.SetLeaderElection(elector)
	stop := context.AfterFunc(ctx, func() {
		if !t.began() {
			endElection()
		}
	})
	defer stop()
	elector.Run(election)
	return t.wait()
}

// run calls work with a context that ends with ctx and with leading.
func (t *term) run(ctx, leading context.Context, work func(context.Context) error) {
	t.mu.Lock()
	if t.over || ctx.Err() != nil {
		t.mu.Unlock()
		return
	}
	leading, cancel := context.WithCancel(leading)
	defer cancel()
	ended := make(chan struct{})
	t.ended, t.lost = ended, time.AfterFunc(lostAfter, cancel)
	t.mu.Unlock()
	defer close(ended)
	defer t.lost.Stop()
	defer context.AfterFunc(ctx, cancel)()
	t.err = work(leading)
}

// lostAfter is the time from a renewal to the end of the context of work. The election itself may wait
// for a hanging API server before it ends the context, and longer than the Lease lasts.
const lostAfter = renewDeadline + retryPeriod

// renew prolongs the context of work after a renewal that began at a time.
func (t *term) renew(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		t.lost.Reset(lostAfter - time.Since(began))
	}
}

func (t *term) began() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ended != nil
}

// wait waits for the end of work, if work has begun, and returns its error. Work that has not begun
// never begins.
func (t *term) wait() error {
	t.mu.Lock()
	t.over = true
	ended := t.ended
	t.mu.Unlock()
	if ended == nil {
		return nil
	}
	<-ended
	return t.err
}

// close reports whether no work runs. Work that has not begun never begins.
func (t *term) close() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended == nil {
		t.over = true
		return true
	}
	select {
	case <-t.ended:
		return true
	default:
		return false
	}
}

// A termLock refuses to release the Lease while work runs, and reports renewals to the term. The
// election releases the Lease when a renewal was too late, before it ends the context of work.
type termLock struct {
	resourcelock.Interface
	term *term
}

var errWorks = errors.New("the work of the holder has not ended")

func (l termLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && !l.term.close() {
		return errWorks
	}
	began := time.Now()
	err := l.Interface.Update(ctx, record)
	if err == nil && record.HolderIdentity == l.Identity() {
		l.term.renew(began)
	}
	return err
}
