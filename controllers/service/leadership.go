package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	// renewed is the time of the last renewal in the present term. Nil: this process does not lead.
	renewed atomic.Pointer[time.Time]
}

// NewLeadership returns the leadership by the Lease of a namespace and a name, in which a slash becomes a
// dash and letters become small. It makes no call. The error for a result that is no name of an object wraps a
// *field.Error.
func NewLeadership(leases coordinationv1.LeasesGetter, namespace, name string) (*Leadership, error) {
	if problems := validation.IsDNS1123Subdomain(leaseName(name)); len(problems) > 0 {
		return nil, fmt.Errorf("service: %w", field.Invalid(field.NewPath("lease"), brief.Name(leaseName(name)), problems[0]))
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	return &Leadership{config: leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: leaseName(name)},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		ReleaseOnCancel: true, Name: name,
	}}, nil
}

// Periods are the periods of a Lease, as flags of Kubernetes' programs name them. A zero field selects its default.
type Periods struct {
	// LeaseDuration is the time after the last renewal for which no other process acquires the Lease. 0: 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is the time for which the holder tries to renew the Lease. 0: 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the pause between two attempts to acquire or to renew the Lease. 0: 2 s.
	RetryPeriod time.Duration
}

// Check returns an error that wraps a *field.Error unless LeaseDuration is a second at least and more than
// RenewDeadline, and this more than 1.2 times RetryPeriod, as a pause varies by a fifth.
func (p Periods) Check() error {
	p = p.withDefaults()
	leastRenewal := time.Duration(leaderelection.JitterFactor * float64(p.RetryPeriod))
	refuse := func(name string, value time.Duration, reason string) error {
		return fmt.Errorf("service: %w", field.Invalid(field.NewPath("Periods", name), value.String(), reason))
	}
	switch {
	case p.RetryPeriod <= 0:
		return refuse("RetryPeriod", p.RetryPeriod, "must be more than 0")
	case p.RenewDeadline <= leastRenewal:
		return refuse("RenewDeadline", p.RenewDeadline, fmt.Sprintf("must be more than %v, 1.2 times RetryPeriod", leastRenewal))
	case p.LeaseDuration <= p.RenewDeadline:
		return refuse("LeaseDuration", p.LeaseDuration, fmt.Sprintf("must be more than RenewDeadline, %v", p.RenewDeadline))
	case p.LeaseDuration < time.Second:
		return refuse("LeaseDuration", p.LeaseDuration, "must be a second at least: a Lease has whole seconds")
	}
	return nil
}

func (p Periods) withDefaults() Periods {
	return Periods{cmp.Or(p.LeaseDuration, leaseDuration), cmp.Or(p.RenewDeadline, renewDeadline), cmp.Or(p.RetryPeriod, retryPeriod)}
}

// SetPeriods replaces the periods of the Lease; call it before Lead. It returns the error of Periods.Check.
func (l *Leadership) SetPeriods(p Periods) error {
	if err := p.Check(); err != nil {
		return err
	}
	p = p.withDefaults()
	l.config.LeaseDuration, l.config.RenewDeadline, l.config.RetryPeriod = p.LeaseDuration, p.RenewDeadline, p.RetryPeriod
	return nil
}

// leaseName returns the name of a Lease as provisioners name it for themselves. A driver's name can have capital
// letters, and that of an object cannot.
func leaseName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "/", "-")) }

// Check returns an error if this process leads, or its work has not ended, twice the duration of the Lease after its
// last renewal. Work that has not ended by then hangs.
func (l *Leadership) Check() error {
	if at := l.renewed.Load(); at != nil && time.Since(*at) > 2*l.config.LeaseDuration {
		return fmt.Errorf("lease %q was renewed %v ago", l.config.Name, time.Since(*at).Round(time.Second))
	}
	return nil
}

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
	lostAfter time.Duration

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
	defer l.renewed.Store(nil)
	t := term{lostAfter: l.lostAfter()}
	config := l.config
	config.Lock = termLock{config.Lock, func(began time.Time) {
		l.renewed.Store(&began)
		t.renew(began)
	}, &t}
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
	t.ended, t.lost = ended, time.AfterFunc(t.lostAfter, cancel)
	t.mu.Unlock()
	defer close(ended)
	defer t.lost.Stop()
	defer context.AfterFunc(ctx, cancel)()
	t.err = work(leading)
}

// lostAfter returns the time from a renewal to the end of the context of work, four fifths of the Lease at most. The
// election itself may wait for a hanging API server before it ends the context, and longer than the Lease lasts.
func (l *Leadership) lostAfter() time.Duration {
	return min(l.config.RenewDeadline+l.config.RetryPeriod, l.config.LeaseDuration/5*4)
}

// renew prolongs the context of work after a renewal that began at a time.
func (t *term) renew(began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lost != nil {
		t.lost.Reset(t.lostAfter - time.Since(began))
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

// A termLock refuses to release the Lease while work runs, and reports each successful write of the holder
// with the time at which it began. The election releases the Lease when a renewal was too late, before it
// ends the context of work.
type termLock struct {
	resourcelock.Interface
	renewed func(began time.Time)
	term    *term
}

func (l termLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	err := l.Interface.Create(ctx, record)
	if err == nil {
		l.renewed(began)
	}
	return err
}

var errWorks = errors.New("the work of the holder has not ended")

func (l termLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && !l.term.close() {
		return errWorks
	}
	began := time.Now()
	err := l.Interface.Update(ctx, record)
	if err == nil && record.HolderIdentity == l.Identity() {
		l.renewed(began)
	}
	return err
}
