package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// A replica runs work while it leads.
type replica struct {
	leads, terms atomic.Int32
	cancel       context.CancelFunc
	ended        chan error
}

func startReplica(t *testing.T, clientset *fake.Clientset) *replica {
	t.Helper()
	l, err := newLeadership(clientset.CoordinationV1(), "ns", nfsSubdir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	r := &replica{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		r.ended <- l.lead(ctx, func(ctx context.Context) error {
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
	l, err := newLeadership(fake.NewClientset().CoordinationV1(), "ns", nfsSubdir)
	require.NoError(t, err)
	cause := errors.New("failed")
	require.ErrorIs(t, l.lead(t.Context(), func(context.Context) error { return cause }), cause)
}
