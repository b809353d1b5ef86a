package service

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/fake"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	ktesting "k8s.io/client-go/testing"
)

const leaseOfTest = "K8s-sigs.io/nfs-subdir-external-provisioner"

// A replica runs work while it leads.
type replica struct {
	leads, terms atomic.Int32
	cancel       context.CancelFunc
	ended        chan error
}

func startReplica(t *testing.T, clientset *fake.Clientset) *replica {
	t.Helper()
	return startReplicaOn(t, clientset.CoordinationV1())
}

func startReplicaOn(t *testing.T, leases coordinationv1.LeasesGetter) *replica {
	t.Helper()
	return startReplicaWith(t, leases, Periods{})
}

func startReplicaWith(t *testing.T, leases coordinationv1.LeasesGetter, periods Periods) *replica {
	t.Helper()
	l, err := NewLeadership(leases, "ns", leaseOfTest)
	require.NoError(t, err)
	require.NoError(t, l.SetPeriods(periods))
	ctx, cancel := context.WithCancel(t.Context())
	r := &replica{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		r.ended <- l.Lead(ctx, func(ctx context.Context) error {
			r.terms.Add(1)
			r.leads.Store(1)
			<-ctx.Done()
			time.Sleep(time.Second) // the last calls
			r.leads.Store(0)
			return nil
		})
	}()
	return r
}

func holder(t *testing.T, clientset *fake.Clientset) string {
	t.Helper()
	lease, err := clientset.CoordinationV1().Leases("ns").Get(t.Context(), "k8s-sigs.io-nfs-subdir-external-provisioner", metav1.GetOptions{})
	require.NoError(t, err)
	return *lease.Spec.HolderIdentity
}

// TestOneLeads: one replica works at a time. One that ends releases the Lease after its work, and the
// other takes over without waiting for the Lease to expire.
func TestOneLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		first := startReplica(t, clientset)
		time.Sleep(time.Second)
		second := startReplica(t, clientset)
		time.Sleep(time.Hour)
		require.EqualValues(t, 1, first.leads.Load())
		require.Zero(t, second.terms.Load())

		first.cancel()
		synctest.Wait()
		require.NotEmpty(t, holder(t, clientset), "released during the last calls")
		require.NoError(t, <-first.ended)
		require.Zero(t, first.leads.Load())
		time.Sleep(leaseDuration / 2)
		require.EqualValues(t, 1, second.leads.Load())
		second.cancel()
		require.NoError(t, <-second.ended)
		require.Empty(t, holder(t, clientset))
	})
}

// TestLostLease: work ends when the Lease cannot be renewed, and begins again afterwards.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		var outage atomic.Bool
		clientset.PrependReactor("*", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
			return outage.Load(), nil, errors.New("outage")
		})
		r := startReplica(t, clientset)
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, r.leads.Load())
		outage.Store(true)
		time.Sleep(leaseDuration)
		require.Zero(t, r.leads.Load())
		outage.Store(false)
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, r.leads.Load())
		require.EqualValues(t, 2, r.terms.Load())
		r.cancel()
		require.NoError(t, <-r.ended)
	})
}

// TestPeriods: work ends before a longer Lease does, which no other process acquires until then.
func TestPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		var outage atomic.Bool
		clientset.PrependReactor("*", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
			return outage.Load(), nil, errors.New("outage")
		})
		periods := Periods{LeaseDuration: 100 * time.Second, RenewDeadline: 60 * time.Second, RetryPeriod: 10 * time.Second}
		first := startReplicaWith(t, clientset.CoordinationV1(), periods)
		time.Sleep(time.Minute)
		lease, err := clientset.CoordinationV1().Leases("ns").Get(t.Context(), "k8s-sigs.io-nfs-subdir-external-provisioner", metav1.GetOptions{})
		require.NoError(t, err)
		require.EqualValues(t, 100, *lease.Spec.LeaseDurationSeconds)
		outage.Store(true)
		time.Sleep(59 * time.Second)
		require.EqualValues(t, 1, first.leads.Load())
		time.Sleep(15 * time.Second)
		require.Zero(t, first.leads.Load())
		first.cancel()
		require.NoError(t, <-first.ended)
	})
}

// TestWrongPeriods: periods that do not fit together are refused by name.
func TestWrongPeriods(t *testing.T) {
	for _, test := range []struct {
		periods Periods
		err     string
	}{
		{Periods{}, ""},
		{Periods{LeaseDuration: time.Minute}, ""},
		{Periods{RetryPeriod: 5 * time.Second}, ""},
		{Periods{RetryPeriod: -1}, "Periods.RetryPeriod"},
		{Periods{RetryPeriod: 9 * time.Second}, "Periods.RenewDeadline"},
		{Periods{RenewDeadline: -1}, "Periods.RenewDeadline"},
		{Periods{RenewDeadline: 15 * time.Second}, "Periods.LeaseDuration"},
		{Periods{LeaseDuration: 10 * time.Second}, "Periods.LeaseDuration"},
		{Periods{LeaseDuration: 500 * time.Millisecond, RenewDeadline: 400 * time.Millisecond, RetryPeriod: time.Millisecond}, "Periods.LeaseDuration"},
	} {
		l, err := NewLeadership(fake.NewClientset().CoordinationV1(), "ns", leaseOfTest)
		require.NoError(t, err)
		err = l.SetPeriods(test.periods)
		if test.err == "" {
			require.NoError(t, err, test.periods)
			continue
		}
		var invalid *field.Error
		require.ErrorAs(t, err, &invalid, test.periods)
		require.Equal(t, test.err, invalid.Field)
	}
}

// TestHangingWork: a leader whose work goes on long after the last renewal is unhealthy until the work ends.
// One that waits for the Lease is healthy.
func TestHangingWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		var outage atomic.Bool
		clientset.PrependReactor("*", "leases", func(ktesting.Action) (bool, runtime.Object, error) {
			return outage.Load(), nil, errors.New("outage")
		})
		l, err := NewLeadership(clientset.CoordinationV1(), "ns", leaseOfTest)
		require.NoError(t, err)
		require.NoError(t, l.Check())
		release, ended := make(chan struct{}), make(chan error, 1)
		go func() {
			ended <- l.Lead(t.Context(), func(context.Context) error {
				<-release
				return errors.New("end")
			})
		}()
		time.Sleep(time.Hour)
		require.NoError(t, l.Check())
		outage.Store(true)
		time.Sleep(2*leaseDuration - retryPeriod)
		require.NoError(t, l.Check())
		time.Sleep(2 * retryPeriod)
		require.ErrorContains(t, l.Check(), "K8s-sigs.io")
		close(release)
		require.EqualError(t, <-ended, "end")
		require.NoError(t, l.Check())
	})
}

// brokenLeases are Leases that fail as broken says.
type brokenLeases struct {
	coordinationv1.LeasesGetter
	broken func(ctx context.Context, update *v1.Lease) error
}

func (l brokenLeases) Leases(namespace string) coordinationv1.LeaseInterface {
	return brokenLease{l.LeasesGetter.Leases(namespace), l.broken}
}

type brokenLease struct {
	coordinationv1.LeaseInterface
	broken func(ctx context.Context, update *v1.Lease) error
}

func (l brokenLease) Get(ctx context.Context, name string, o metav1.GetOptions) (*v1.Lease, error) {
	if err := l.broken(ctx, nil); err != nil {
		return nil, err
	}
	return l.LeaseInterface.Get(ctx, name, o)
}

func (l brokenLease) Update(ctx context.Context, lease *v1.Lease, o metav1.UpdateOptions) (*v1.Lease, error) {
	if err := l.broken(ctx, lease); err != nil {
		return nil, err
	}
	return l.LeaseInterface.Update(ctx, lease, o)
}

// TestLateRenewal: a replica that cannot renew the Lease ends its work before another replica leads,
// and does not release the Lease while it works: if calls hang, and if only the release succeeds.
func TestLateRenewal(t *testing.T) {
	for name, broken := range map[string]func(context.Context, *v1.Lease) error{
		"calls hang": func(ctx context.Context, _ *v1.Lease) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"renewals fail": func(_ context.Context, update *v1.Lease) error {
			if update == nil || *update.Spec.HolderIdentity == "" {
				return nil
			}
			return errors.New("outage")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clientset := fake.NewClientset()
				var outage atomic.Bool
				first := startReplicaOn(t, brokenLeases{clientset.CoordinationV1(), func(ctx context.Context, update *v1.Lease) error {
					if !outage.Load() {
						return nil
					}
					return broken(ctx, update)
				}})
				time.Sleep(time.Second)
				second := startReplica(t, clientset)
				time.Sleep(time.Minute)
				outage.Store(true)
				for range 600 {
					time.Sleep(100 * time.Millisecond)
					require.LessOrEqual(t, first.leads.Load()+second.leads.Load(), int32(1), "two lead")
					if first.leads.Load() == 1 {
						require.NotEmpty(t, holder(t, clientset), "released during the work")
					}
				}
				require.EqualValues(t, 1, second.leads.Load())
				require.EqualValues(t, 1, first.terms.Load())
				first.cancel()
				second.cancel()
				require.NoError(t, <-first.ended)
				require.NoError(t, <-second.ended)
			})
		})
	}
}

// TestNeverElected: a replica that ends without having led returns, and works never.
func TestNeverElected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset := fake.NewClientset()
		first, second := startReplica(t, clientset), (*replica)(nil)
		time.Sleep(time.Second)
		second = startReplica(t, clientset)
		time.Sleep(time.Minute)
		second.cancel()
		require.NoError(t, <-second.ended)
		require.Zero(t, second.terms.Load())
		first.cancel()
		require.NoError(t, <-first.ended)
	})
}

// TestWorkFails: the error of work ends lead.
func TestWorkFails(t *testing.T) {
	l, err := NewLeadership(fake.NewClientset().CoordinationV1(), "ns", leaseOfTest)
	require.NoError(t, err)
	cause := errors.New("failed")
	require.ErrorIs(t, l.Lead(t.Context(), func(context.Context) error { return cause }), cause)
}

// TestInvalidLease: a name that no Lease can have is an error before any call.
func TestInvalidLease(t *testing.T) {
	for _, name := range []string{"", "a_b", "example.com/local_disk", strings.Repeat("x", 300)} {
		_, err := NewLeadership(fake.NewClientset().CoordinationV1(), "ns", name)
		require.ErrorContains(t, err, "lease: Invalid value: ", name)
		require.Less(t, len(err.Error()), 500)
	}
	_, err := NewLeadership(fake.NewClientset().CoordinationV1(), "ns", "Example.com/nfs")
	require.NoError(t, err)
}
