package sidecar_test

import (
	"context"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/csi/csitest"
)

const selectedNode = "volume.kubernetes.io/selected-node"

// openOutcome is the fault of a call that has created its volume and fails.
var openOutcome = csitest.Fault{Method: csitest.CreateVolume, Code: codes.DeadlineExceeded, After: true, Times: 1}

// waitsForConsumer makes a class wait for a selected node.
func waitsForConsumer(c *storagev1.StorageClass) {
	mode := storagev1.VolumeBindingWaitForFirstConsumer
	c.VolumeBindingMode = &mode
}

// An openCase is a change of the cluster while the outcome of CreateVolume for the claim c is open.
type openCase struct {
	name       string
	parameters map[string]string
	class      func(*storagev1.StorageClass)
	claim      func(*v1.PersistentVolumeClaim)
	before     func(*world)
	change     func(*world)
	// isDiscarded: the claim cannot have the volume any more.
	isDiscarded bool
	others      int // volumes that do not belong to c
}

func onNode(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{selectedNode: "a"} }

func createSource(w *world) {
	create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("source"))
	w.settle()
}

func deleteSource(w *world) {
	require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "source", metav1.DeleteOptions{}))
}

func deleteNode(w *world) {
	require.NoError(w, w.cluster.Nodes().Delete(w.Context(), "a", metav1.DeleteOptions{}))
	require.NoError(w, w.cluster.CSINodes().Delete(w.Context(), "a", metav1.DeleteOptions{}))
}

var openCases = []openCase{
	{name: "nothing changes"},
	{name: "a node joins", change: func(w *world) { w.createNode("c", "a-zone") }},
	{name: "a node joins beside the selected one", class: waitsForConsumer, claim: onNode, change: func(w *world) { w.createNode("c", "a-zone") }},
	{name: "the selected node leaves", class: waitsForConsumer, claim: onNode, change: deleteNode},
	{name: "the source is deleted", before: createSource, claim: fromClaim("source"), change: deleteSource},
	{name: "the source grows", before: createSource, claim: fromClaim("source"), change: func(w *world) { w.expand("source", "3Gi") }, others: 1},
	{name: "the secret is deleted", parameters: map[string]string{parameterKey + "secret-name": "login", parameterKey + "secret-namespace": "storage"},
		before: func(w *world) { w.createSecret("storage", "login") },
		change: func(w *world) {
			require.NoError(w, w.cluster.Secrets("storage").Delete(w.Context(), "login", metav1.DeleteOptions{}))
		}, isDiscarded: true},
	{name: "the annotation of the secret's name is removed",
		parameters: map[string]string{parameterKey + "secret-name": "${pvc.annotations['team/login']}", parameterKey + "secret-namespace": "storage"},
		claim:      func(c *v1.PersistentVolumeClaim) { c.Annotations = map[string]string{"team/login": "login"} },
		before:     func(w *world) { w.createSecret("storage", "login") },
		change: func(w *world) {
			claim := w.claim("c")
			delete(claim.Annotations, "team/login")
			_, err := w.cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
			require.NoError(w, err)
		}},
}

// open lets the first call for the claim c end with an open outcome, and changes the cluster.
func (c openCase) open(w *world, stop func()) {
	w.createNode("a", "b-zone")
	w.createNode("b", "d-zone")
	w.createClass(c.parameters, c.class)
	if c.before != nil {
		c.before(w)
	}
	w.settle()
	w.driver.Inject(openOutcome)
	claim := newClaim("c")
	if c.claim != nil {
		c.claim(claim)
	}
	w.driver.ResetCalls()
	create(w, w.cluster.PersistentVolumeClaims(namespace), claim)
	time.Sleep(200 * time.Millisecond)
	require.Len(w, w.texts(csitest.CreateVolume), 1)
	if stop != nil {
		stop()
	}
	if c.change != nil {
		c.change(w)
	}
}

// TestCreateVolumeIsRepeated: a call with an open outcome is repeated with equal arguments after each change of the
// cluster. The claim is bound, or its volume is deleted; nothing is left after its end.
func TestCreateVolumeIsRepeated(t *testing.T) {
	for _, c := range openCases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, all, func(w *world) {
				w.runOthers()
				w.run()
				c.open(w, nil)
				time.Sleep(2 * time.Minute)
				require.Empty(w, w.driver.Violations())
				require.Equal(w, !c.isDiscarded, w.claim("c").Status.Phase == v1.ClaimBound, w.eventTexts())
				w.checkEnd(c.others)
			})
		})
		t.Run(c.name+", the claim is deleted", func(t *testing.T) {
			inWorld(t, all, func(w *world) {
				w.runOthers()
				w.run()
				c.open(w, nil)
				w.checkEnd(c.others)
			})
		})
	}
}

// TestCreateVolumeAfterRestart: a later run does not know the arguments of an open call. It finds the volume of a driver
// that compares the arguments that concern the volume itself.
func TestCreateVolumeAfterRestart(t *testing.T) {
	for _, c := range openCases {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, all, func(w *world) {
				w.config.Conn = &lenientConn{ClientConnInterface: w.config.Conn}
				w.runOthers()
				c.open(w, w.run())
				w.run()
				w.checkEnd(c.others)
			})
		})
	}
}

// checkEnd deletes the claim c, and checks that nothing is left of it.
func (w *world) checkEnd(others int) {
	require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "c", metav1.DeleteOptions{}))
	time.Sleep(time.Hour)
	left, err := w.cluster.PersistentVolumeClaims(namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	require.Len(w, left.Items, others, "%s", w.eventTexts())
	require.Len(w, w.driver.Volumes(), others, "%s", w.eventTexts())
}

// A lenientConn is a driver that answers a repeated CreateVolume with the volume of the name. It does not compare the
// topology, the source and the secrets.
type lenientConn struct {
	grpc.ClientConnInterface
	mu    sync.Mutex
	first map[string]*csipb.CreateVolumeRequest
}

func (c *lenientConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	if r, ok := args.(*csipb.CreateVolumeRequest); ok {
		args = c.firstOf(r)
	}
	return c.ClientConnInterface.Invoke(ctx, method, args, reply, options...)
}

// firstOf returns the first request of a name.
func (c *lenientConn) firstOf(r *csipb.CreateVolumeRequest) *csipb.CreateVolumeRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil {
		c.first = map[string]*csipb.CreateVolumeRequest{}
	}
	if c.first[r.Name] == nil {
		c.first[r.Name], _ = proto.Clone(r).(*csipb.CreateVolumeRequest)
	}
	return c.first[r.Name]
}
