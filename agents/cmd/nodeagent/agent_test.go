package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/screen"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/internal/testbed"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

// An output is the output of a running program.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

func TestOptions(t *testing.T) {
	testbed.RequireCommandLines(t, run,
		testbed.CommandLine{Args: "-help", Prints: "-kubeconfig FILE"},
		testbed.CommandLine{Args: "", Status: 2, Prints: "-root: required"},
		testbed.CommandLine{Args: "-root r -node A_B", Status: 2, Prints: `-node "A_B": `},
		testbed.CommandLine{Args: "-root r more", Status: 2, Prints: `unexpected argument "more"; see -help`},
		testbed.CommandLine{Args: "-root r -disks a,,b", Status: 2, Prints: "an element of the list is empty"},
		testbed.CommandLine{Args: "-root r -kubeconfig /no", Status: 1, Prints: "nodeagent: -kubeconfig: "})
}

// TestJoin: without -register a missing Node is an error, with it the Node is created once and its
// Lease is renewed.
func TestJoin(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	clientset := fake.NewClientset()
	leases := clientset.CoordinationV1().Leases(v1.NamespaceNodeLease)
	a := &agent{options: options{node: "node-1"}, parts: parts{cluster: server.Connect("agent"), leases: leases}}
	_, err := a.join(t.Context())
	require.ErrorContains(t, err, "-register")
	a.register = true
	created, err := a.join(t.Context())
	require.NoError(t, err)
	require.Equal(t, "node-1", created.Labels[v1.LabelHostname])
	found, err := a.join(t.Context())
	require.NoError(t, err)
	require.Equal(t, created, found)

	require.NoError(t, a.heartbeat.renew(t.Context()))
	lease := func() *coordinationv1.Lease {
		lease, err := leases.Get(t.Context(), "node-1", metav1.GetOptions{})
		require.NoError(t, err)
		return lease
	}
	first := lease()
	require.Equal(t, "node-1", *first.Spec.HolderIdentity)
	require.Equal(t, created.UID, first.OwnerReferences[0].UID)
	clientset.ClearActions()
	require.NoError(t, a.heartbeat.renew(t.Context()))
	require.Len(t, clientset.Actions(), 1, "one call for each renewal")
	require.True(t, lease().Spec.RenewTime.After(first.Spec.RenewTime.Time))
	a.heartbeat.last = nil // as after a failure
	clientset.ClearActions()
	require.NoError(t, a.heartbeat.renew(t.Context()))
	require.Equal(t, []string{"get", "update"}, verbsOf(clientset.Actions()))
}

// TestReady: the Node reports Ready from the first heartbeat on, after some minutes again, and at once when the cluster has
// marked it as unreachable. The condition keeps the time of its transition. With -csi a controller attaches the volumes
// of the node. A node that the agent has created has a taint.
func TestReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		clientset := fake.NewClientset()
		a := &agent{
			options: options{node: "node-1", register: true, csi: true}, screen: screen.New(io.Discard),
			parts: parts{cluster: server.Connect("agent"), leases: clientset.CoordinationV1().Leases(v1.NamespaceNodeLease)},
		}
		node := func() *v1.Node {
			node, err := server.Direct().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
			require.NoError(t, err)
			return node
		}
		requireReady := func(transition time.Time, beat time.Duration) {
			t.Helper()
			conditions := node().Status.Conditions
			require.Len(t, conditions, 1)
			require.Equal(t, v1.ConditionTrue, conditions[0].Status)
			require.WithinDuration(t, transition, conditions[0].LastTransitionTime.Time, time.Second)
			require.WithinDuration(t, time.Now().Add(-beat), conditions[0].LastHeartbeatTime.Time, time.Second)
		}
		for range 2 {
			_, err := a.join(t.Context())
			require.NoError(t, err)
			require.Equal(t, "true", node().Annotations[attach.ManagedAnnotation])
		}
		require.Equal(t, []v1.Taint{{Key: "volumekit.io/no-containers", Effect: v1.TaintEffectNoSchedule}}, node().Spec.Taints)
		require.Len(t, server.Calls(apitest.Call{Verb: apitest.Patch}), 1)

		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.heartbeat.run(ctx) }()
		time.Sleep(time.Second)
		requireReady(began, time.Second)
		server.ForgetCalls()
		time.Sleep(reportPeriod - 2*time.Second)
		require.Empty(t, server.Calls(apitest.Call{Verb: apitest.Patch}))
		time.Sleep(renewPeriod)
		requireReady(began, renewPeriod-time.Second)

		_, err := server.Direct().Nodes().Patch(t.Context(), "node-1", types.StrategicMergePatchType, // as the cluster does
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"Unknown"}]}}`), metav1.PatchOptions{}, "status")
		require.NoError(t, err)
		time.Sleep(renewPeriod)
		requireReady(time.Now().Add(-renewPeriod+time.Second), renewPeriod-time.Second)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// TestStartDuringOutage: an agent that starts during an outage of the API server waits, and says why.
// It ends if its ctx ends, and if the API server refuses a call.
func TestStartDuringOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		clientset := fake.NewClientset()
		var out output
		a := &agent{
			options: options{node: "node-1", register: true}, screen: screen.New(io.Discard), out: &out,
			parts: parts{cluster: server.Connect("agent"), leases: clientset.CoordinationV1().Leases(v1.NamespaceNodeLease)},
		}
		endOutage := server.StartOutage("agent")
		ctx, cancel := context.WithCancelCause(t.Context())
		var joined *v1.Node
		var err error
		wait := func() (ended chan struct{}) {
			ended = make(chan struct{})
			go func() {
				defer close(ended)
				joined, err = a.waitForNode(ctx)
			}()
			time.Sleep(time.Hour)
			return ended
		}
		ended := wait()
		require.NotEmpty(t, server.Calls(apitest.Call{}))
		require.LessOrEqual(t, len(server.Calls(apitest.Call{})), 3600/30+5)
		require.Contains(t, out.String(), "Waiting for the API server: ")
		cause := errors.New("ended by the test")
		cancel(cause)
		<-ended
		require.ErrorIs(t, err, cause)

		ctx = t.Context()
		ended = wait()
		endOutage()
		<-ended
		require.NoError(t, err)
		require.Equal(t, "node-1", joined.Name)
		require.NotNil(t, a.heartbeat)

		server.Inject(apitest.Fault{Failure: func(apitest.Call) error { return apierrors.NewUnauthorized("no") }})
		<-wait()
		require.True(t, apierrors.IsUnauthorized(err), "%v", err)
	})
}

// TestLeaseOfDeletedNode: after the deletion of the Node, the heartbeat creates no Lease, whose owner
// would be missing, and asks for a restart.
func TestLeaseOfDeletedNode(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	clientset := fake.NewClientset()
	leases := clientset.CoordinationV1().Leases(v1.NamespaceNodeLease)
	a := &agent{options: options{node: "node-1", register: true}, parts: parts{cluster: server.Connect("agent"), leases: leases}, screen: screen.New(io.Discard)}
	_, err := a.join(t.Context())
	require.NoError(t, err)
	require.NoError(t, a.heartbeat.renew(t.Context()))
	deleteNode := func() { require.NoError(t, a.cluster.Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{})) }
	deleteNode()
	require.NoError(t, leases.Delete(t.Context(), "node-1", metav1.DeleteOptions{})) // as the garbage collector
	for range 3 {
		a.heartbeat.last = nil // as after a failure
		clientset.ClearActions()
		require.ErrorContains(t, a.heartbeat.renew(t.Context()), "restart the agent")
		require.Equal(t, []string{"get"}, verbsOf(clientset.Actions()))
	}
	old := a.heartbeat
	_, err = a.join(t.Context()) // a restart
	require.NoError(t, err)
	for range 2 { // another Node has the name, without and with a Lease
		old.last = nil
		require.ErrorContains(t, old.renew(t.Context()), "restart the agent")
		require.NoError(t, a.heartbeat.renew(t.Context()))
	}
}

func verbsOf(actions []ktesting.Action) (verbs []string) {
	for _, action := range actions {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}
