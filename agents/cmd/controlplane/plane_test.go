package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/internal/testbed"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestOptions(t *testing.T) {
	for args, test := range map[string]struct {
		want func(*options)
		err  string
	}{
		"": {func(*options) {}, ""},
		"-kubeconfig /k -namespace ns -lease l -listen :0 -report-unused -controllers pvc-protection": {func(o *options) {
			o.controllers, o.reportUnused, o.lease, o.namespace, o.kubeconfig, o.listen = selection{claimProtection}, true, "l", "ns", "/k", ":0"
		}, ""},
		"-leader-election=false": {func(o *options) { o.election = false }, ""},
		"-memory":                {func(o *options) { o.memory = true }, ""},
		"-lease=":                {nil, "-lease"},
		"-controllers pv-protection -report-unused": {nil, "-report-unused: requires the controller " + claimProtection},
		"-controllers nfs":                          {nil, `unknown controller "nfs"`},
		"more":                                      {nil, `unexpected argument "more"`},
	} {
		getenv := func(name string) string { return map[string]string{"POD_NAMESPACE": "system"}[name] }
		got, err := parseOptions(strings.Fields(args), getenv, io.Discard)
		if test.err != "" {
			require.ErrorContains(t, err, test.err, args)
			continue
		}
		require.NoError(t, err, args)
		want := options{
			controllers: selection{every}, election: true, lease: "volumekit-controlplane", namespace: "system",
			nfs: recycling{minimum: 300, increment: 30}, hostPath: recycling{minimum: 60, increment: 30},
		}
		test.want(&want)
		require.Equal(t, want, got, args)
	}
	testbed.RequireCommandLines(t, run,
		testbed.CommandLine{Args: "-controllers nfs", Status: 2, Prints: "; see -help"}, testbed.CommandLine{Args: "-help", Prints: claimProtection})
}

// TestDemonstration: the program shows its controllers without a cluster.
func TestDemonstration(t *testing.T) {
	var out bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-memory"}, &out, io.Discard))
	require.Equal(t, `a user creates a volume and claim data
  claim data exists
  claim data is bound to volume disk
pod web uses claim data, and has an ephemeral volume
  claim web-scratch exists
a user deletes claim data
  claim data is in deletion, with its finalizer
a user deletes the pod
  claim data has ended
the garbage collector deletes the claim of the pod
  claim web-scratch is in deletion, with its finalizer
  claim web-scratch has ended
`, out.String())
}

// A rig runs control planes on one API server in memory.
type rig struct {
	*clustertest.Cluster // without a binder
	server               *apitest.Server
	leases               *fake.Clientset
}

func newRig(t *testing.T) *rig {
	server := apitest.NewServer(apitest.Config{})
	return &rig{&clustertest.Cluster{T: t, API: server.Direct()}, server, fake.NewClientset()}
}

// plane returns a control plane with an identity.
func (r *rig) plane(identity, controllers string) *plane {
	r.Helper()
	s, err := parseSelection(controllers)
	require.NoError(r, err)
	p, err := newPlane(options{controllers: s, election: true, namespace: "ns", lease: "l"},
		parts{cluster: r.server.Connect(identity), leases: r.leases.CoordinationV1(), announce: r.Record}, io.Discard)
	require.NoError(r, err)
	return p
}

// TestOneWorks: one of two replicas works, and the other one after its end. The controllers share the caches.
func TestOneWorks(t *testing.T) {
	r := newRig(t)
	stop := r.Start(r.plane("first", every).run)
	createPod(r.Cluster, "a")
	r.Eventually("no claim", func() bool { return exists(r.API, "a-data") })
	watches := map[string]int{}
	r.Eventually("no eight watches", func() bool {
		clear(watches)
		for _, open := range r.server.OpenWatches("first") {
			watches[open.Resource]++
		}
		return len(watches) == 8 // the claim needs fewer
	})
	require.Equal(t, map[string]int{"pods": 1, "persistentvolumeclaims": 1, "persistentvolumes": 1, "storageclasses": 1,
		"nodes": 1, "volumeattachments": 1, "csidrivers": 1, "csinodes": 1}, watches)
	r.Start(r.plane("second", every).run)
	stop()
	createPod(r.Cluster, "b")
	r.Eventually("no claim", func() bool { return exists(r.API, "b-data") })
	require.NotEmpty(t, r.server.Calls(apitest.Call{Identity: "second", Verb: apitest.Create}))
}

// TestSelected: a controller that is not selected does not work, and its kinds are not watched.
func TestSelected(t *testing.T) {
	r := newRig(t)
	r.Start(r.plane("plane", "pv-protection").run)
	r.Eventually("no watch", func() bool { return len(r.server.OpenWatches("plane")) == 2 })
	for _, open := range r.server.OpenWatches("plane") {
		require.NotEqual(t, "pods", open.Resource)
	}
}

// TestEndpoints: a leader serves metrics and health.
func TestEndpoints(t *testing.T) {
	r := newRig(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := r.plane("plane", every)
	r.Start(func(ctx context.Context) error { return p.runWith(ctx, listener) })
	createPod(r.Cluster, "a")
	name := "pv"
	_, err = r.API.VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "csi-a"},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	for _, metric := range []string{
		"ephemeral_volume_controller_create_total 1", "pv_collector_unbound_pvc_count{",
		`attachdetach_controller_total_volumes{plugin_name="kubernetes.io/csi:d",state="actual_state_of_world"} 1`,
	} {
		r.RequireEndpoints(listener.Addr(), metric)
	}
}

// createPod creates a pod with an ephemeral volume data.
func createPod(u *clustertest.Cluster, name string) *v1.Pod {
	u.Helper()
	spec := v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	pod := newPod("named", "data", spec)
	pod.Name, pod.Spec.NodeName = name, ""
	pod, err := u.API.Pods(v1.NamespaceDefault).Create(u.Context(), pod, metav1.CreateOptions{})
	require.NoError(u, err)
	return pod
}

// exists reports whether a claim exists.
func exists(cluster api.Cluster, claim string) bool {
	_, err := cluster.PersistentVolumeClaims(v1.NamespaceDefault).Get(context.Background(), claim, metav1.GetOptions{})
	return !apierrors.IsNotFound(err)
}
