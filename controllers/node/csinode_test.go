package node_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The interfaces of module csi, which this module does not import: csi.DriverObjectGetter,
// csi.SecretGetter, csi.TokenGetter, csi.AttachmentReader and registration.NodeWriter.
var (
	_ interface {
		GetCSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	} = (*node.CSIDrivers)(nil)
	_ interface {
		GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
		GetServiceAccountToken(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error)
	} = (*node.Source)(nil)
	_ interface {
		WaitForAttachment(ctx context.Context, driver, handle string) (metadata map[string]string, err error)
		IsAttached(driver, handle string) (attached, known bool)
		ReleaseAttachment(driver, handle string)
	} = (*node.VolumeAttachments)(nil)
	_ interface {
		PutDriver(ctx context.Context, driver storagev1.CSINodeDriver, topology map[string]string) error
		RemoveDriver(ctx context.Context, name string) error
	} = (*node.CSINode)(nil)
)

const nodeIDs = "csi.volume.kubernetes.io/nodeid"

// A csiNodeWorld is a CSINode on an API server in memory.
type csiNodeWorld struct {
	*testing.T
	*node.CSINode
	server *apitest.Server
}

func newCSINodeWorld(t *testing.T) *csiNodeWorld {
	t.Helper()
	w := &csiNodeWorld{T: t, server: apitest.NewServer(apitest.Config{})}
	var err error
	w.CSINode, err = node.NewCSINode(node.CSINodeConfig{Cluster: w.server.Connect(agent), Node: "node-1"})
	require.NoError(t, err)
	w.createNode()
	return w
}

func (w *csiNodeWorld) createNode() {
	w.Helper()
	_, err := w.server.Direct().Nodes().Create(w.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-1", Labels: map[string]string{"zone": "z1"}, Annotations: map[string]string{"other": "x"},
	}}, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *csiNodeWorld) node() *v1.Node {
	w.Helper()
	object, err := w.server.Direct().Nodes().Get(w.Context(), "node-1", metav1.GetOptions{})
	require.NoError(w, err)
	return object
}

func (w *csiNodeWorld) object() *storagev1.CSINode {
	w.Helper()
	object, err := w.server.Direct().CSINodes().Get(w.Context(), "node-1", metav1.GetOptions{})
	require.NoError(w, err)
	return object
}

// entries returns the drivers with their node IDs.
func (w *csiNodeWorld) entries() map[string]string {
	w.Helper()
	entries := map[string]string{}
	for _, d := range w.object().Spec.Drivers {
		require.NotContains(w, entries, d.Name)
		entries[d.Name] = d.NodeID
	}
	return entries
}

// takeWrites returns the verbs and resources of the writes since the last call.
func (w *csiNodeWorld) takeWrites() (writes []string) {
	for _, call := range w.server.Calls(apitest.Call{Identity: agent}) {
		if call.Verb != "get" {
			writes = append(writes, string(call.Verb)+" "+call.Resource)
		}
	}
	w.server.ForgetCalls()
	return writes
}

func entry(name, id string, keys ...string) storagev1.CSINodeDriver {
	count := int32(5)
	return storagev1.CSINodeDriver{Name: name, NodeID: id, TopologyKeys: keys, Allocatable: &storagev1.VolumeNodeResources{Count: &count}}
}

func TestCSINodeConfigIsChecked(t *testing.T) {
	cluster := apitest.NewServer(apitest.Config{}).Direct()
	for name, config := range map[string]node.CSINodeConfig{"Cluster": {Node: "node-1"}, "Node": {Cluster: cluster}} {
		_, err := node.NewCSINode(config)
		var refused *field.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "CSINodeConfig."+name, refused.Field)
	}
	_, err := node.NewCSIDrivers(node.CSIDriversConfig{})
	require.ErrorAs(t, err, new(*field.Error))
}

// TestPutDriver: the objects are those that a kubelet writes, and a repetition writes nothing.
func TestPutDriver(t *testing.T) {
	w := newCSINodeWorld(t)
	topology := map[string]string{"zone": "z1", "rack": "r1"}
	require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a", "rack", "zone"), topology))
	n := w.node()
	require.Equal(t, map[string]string{"zone": "z1", "rack": "r1"}, n.Labels)
	require.Equal(t, map[string]string{"other": "x", nodeIDs: `{"a.example":"id-a"}`}, n.Annotations)
	object := w.object()
	require.Equal(t, []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "node-1", UID: n.UID}}, object.OwnerReferences)
	require.Equal(t, []storagev1.CSINodeDriver{entry("a.example", "id-a", "rack", "zone")}, object.Spec.Drivers)
	require.Equal(t, []string{"patch nodes", "create csinodes"}, w.takeWrites())

	require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a", "zone", "rack"), topology))
	require.Empty(t, w.takeWrites())

	require.NoError(t, w.PutDriver(t.Context(), entry("b.example", "id-b"), nil))
	require.Equal(t, map[string]string{"a.example": "id-a", "b.example": "id-b"}, w.entries())
	require.JSONEq(t, `{"a.example":"id-a","b.example":"id-b"}`, w.node().Annotations[nodeIDs])
	require.Equal(t, []string{"patch nodes", "update csinodes"}, w.takeWrites())
}

// TestChangedEntryIsReplaced: the API server permits no change of an entry.
func TestChangedEntryIsReplaced(t *testing.T) {
	w := newCSINodeWorld(t)
	require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a", "rack"), nil))
	require.NoError(t, w.PutDriver(t.Context(), entry("b.example", "id-b"), nil))
	changed := entry("a.example", "id-a", "rack")
	changed.Allocatable = nil
	for _, next := range []storagev1.CSINodeDriver{entry("a.example", "id-2", "rack"), entry("a.example", "id-2"), changed} {
		w.takeWrites()
		require.NoError(t, w.PutDriver(t.Context(), next, nil))
		require.Equal(t, next, w.object().Spec.Drivers[1])
		writes := w.takeWrites()
		require.Equal(t, []string{"update csinodes", "update csinodes"}, writes[len(writes)-2:])
		require.Equal(t, "id-b", w.entries()["b.example"])
	}
	require.JSONEq(t, `{"a.example":"id-a","b.example":"id-b"}`, w.node().Annotations[nodeIDs])
}

// TestRemoveDriver: entry and node ID vanish, other drivers' and the labels stay.
func TestRemoveDriver(t *testing.T) {
	w := newCSINodeWorld(t)
	require.NoError(t, w.RemoveDriver(t.Context(), "a.example"), "no CSINode object")
	require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a", "rack"), map[string]string{"rack": "r1"}))
	require.NoError(t, w.PutDriver(t.Context(), entry("b.example", "id-b"), nil))
	w.takeWrites()
	require.NoError(t, w.RemoveDriver(t.Context(), "a.example"))
	require.Equal(t, map[string]string{"b.example": "id-b"}, w.entries())
	require.Equal(t, map[string]string{"zone": "z1", "rack": "r1"}, w.node().Labels)
	require.JSONEq(t, `{"b.example":"id-b"}`, w.node().Annotations[nodeIDs])
	require.Equal(t, []string{"update csinodes", "patch nodes"}, w.takeWrites())
	require.NoError(t, w.RemoveDriver(t.Context(), "a.example"))
	require.Empty(t, w.takeWrites())
	require.NoError(t, w.RemoveDriver(t.Context(), "b.example"))
	require.Empty(t, w.entries())
	require.Equal(t, map[string]string{"other": "x"}, w.node().Annotations)

	require.NoError(t, w.server.Direct().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}))
	require.NoError(t, w.RemoveDriver(t.Context(), "b.example"), "no Node object")
}

// TestTopologyThatContradicts: nothing is written, and the error is the driver's.
func TestTopologyThatContradicts(t *testing.T) {
	w := newCSINodeWorld(t)
	err := w.PutDriver(t.Context(), entry("a.example", "id-a", "zone"), map[string]string{"a": "b", "zone": "z2"})
	require.EqualError(t, err, `register driver "a.example" on node node-1: topology zone=z2: the node has the label zone=z1`)
	require.Equal(t, volume.Final, volume.KindOf(err))
	require.Empty(t, w.takeWrites())
}

// TestInvalidEntryIsFinal: the API server refuses the entry for ever.
func TestInvalidEntryIsFinal(t *testing.T) {
	w := newCSINodeWorld(t)
	err := w.PutDriver(t.Context(), entry("a.example", ""), nil)
	require.True(t, apierrors.IsInvalid(err), "%v", err)
	require.Equal(t, volume.Final, volume.KindOf(err))
}

// TestCSINodeOfAnotherNode: the object of a deleted node of the name is replaced, with all entries, as
// is one without an owner.
func TestCSINodeOfAnotherNode(t *testing.T) {
	w := newCSINodeWorld(t)
	require.NoError(t, w.PutDriver(t.Context(), entry("old.example", "id-old"), nil))
	require.NoError(t, w.server.Direct().Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}))
	err := w.PutDriver(t.Context(), entry("a.example", "id-a"), nil)
	require.True(t, apierrors.IsNotFound(err))
	require.Equal(t, volume.Transient, volume.KindOf(err), "the node is not registered yet")
	w.createNode()
	require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a"), nil))
	require.Equal(t, map[string]string{"a.example": "id-a"}, w.entries())
	require.Equal(t, w.node().UID, w.object().OwnerReferences[0].UID)

	object := w.object()
	object.OwnerReferences = nil
	_, err = w.server.Direct().CSINodes().Update(t.Context(), object, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.NoError(t, w.PutDriver(t.Context(), entry("b.example", "id-b"), nil))
	require.Equal(t, map[string]string{"b.example": "id-b"}, w.entries())
}

// TestBrokenNodeIDs: an annotation that is no JSON object is replaced by a registration, and left alone
// by a removal.
func TestBrokenNodeIDs(t *testing.T) {
	for _, broken := range []string{"{", "null", "[]", `{"a":1}`, "7"} {
		w := newCSINodeWorld(t)
		n := w.node()
		n.Annotations[nodeIDs] = broken
		_, err := w.server.Direct().Nodes().Update(t.Context(), n, metav1.UpdateOptions{})
		require.NoError(t, err)
		require.NoError(t, w.RemoveDriver(t.Context(), "a.example"))
		require.Equal(t, broken, w.node().Annotations[nodeIDs])
		require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a"), nil))
		require.JSONEq(t, `{"a.example":"id-a"}`, w.node().Annotations[nodeIDs])
	}
}

// TestConflictsOfCSINode: another writer changes the objects between read and write: nothing of it is
// lost, and a few conflicts are no error.
func TestConflictsOfCSINode(t *testing.T) {
	w := newCSINodeWorld(t)
	require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a"), nil))
	for _, resource := range []string{"nodes", "csinodes"} {
		for _, verb := range []apitest.Verb{apitest.Patch, apitest.Update} {
			w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: agent, Verb: verb, Resource: resource}, Times: 3, Failure: apitest.Conflict})
		}
	}
	// The faults of both objects are spent by separate calls: each has five tries.
	require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a"), map[string]string{"rack": "r1"}))
	require.NoError(t, w.RemoveDriver(t.Context(), "a.example"))
	require.Empty(t, w.entries())
	w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: agent, Verb: "patch"}, Failure: apitest.Conflict})
	err := w.PutDriver(t.Context(), entry("b.example", "id-b"), nil)
	require.True(t, apierrors.IsConflict(err))
	require.Equal(t, volume.Transient, volume.KindOf(err))
}

// A racingCluster calls another writer once, after a read of a Node object.
type racingCluster struct {
	node.CSINodeCluster
	race func()
}

func (c *racingCluster) Nodes() api.Nodes { return racingNodes{c.CSINodeCluster.Nodes(), c} }

type racingNodes struct {
	api.Nodes
	cluster *racingCluster
}

func (n racingNodes) Get(ctx context.Context, name string, options metav1.GetOptions) (*v1.Node, error) {
	object, err := n.Nodes.Get(ctx, name, options)
	race := n.cluster.race
	n.cluster.race = func() {}
	race()
	return object, err
}

// TestNodeIDsOfAnotherWriter: the annotation of all drivers keeps the driver that another program adds
// between read and write.
func TestNodeIDsOfAnotherWriter(t *testing.T) {
	w := newCSINodeWorld(t)
	writer, err := node.NewCSINode(node.CSINodeConfig{Node: "node-1", Cluster: &racingCluster{w.server.Connect("other"), func() {
		require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "id-a"), nil))
	}}})
	require.NoError(t, err)
	require.NoError(t, writer.PutDriver(t.Context(), entry("b.example", "id-b"), nil))
	require.JSONEq(t, `{"a.example":"id-a","b.example":"id-b"}`, w.node().Annotations[nodeIDs])
	require.Len(t, w.entries(), 2)
}

// TestWritersOfCSINode: concurrent writers, as agents that overlap, lose no driver.
func TestWritersOfCSINode(t *testing.T) {
	w := newCSINodeWorld(t)
	var writers sync.WaitGroup
	for i := range 4 {
		writer, err := node.NewCSINode(node.CSINodeConfig{Cluster: w.server.Connect(fmt.Sprint(agent, i)), Node: "node-1"})
		require.NoError(t, err)
		for j := range 4 {
			writers.Go(func() {
				name := fmt.Sprintf("d%d.example", i*4+j)
				for {
					err := writer.PutDriver(t.Context(), entry(name, "id-"+name), map[string]string{name: "x"})
					if err == nil {
						return
					}
					if volume.KindOf(err) != volume.Transient {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	writers.Wait()
	entries, labels := w.entries(), w.node().Labels
	for i := range 16 {
		name := fmt.Sprintf("d%d.example", i)
		require.Equal(t, "id-"+name, entries[name])
		require.Equal(t, "x", labels[name])
		require.Contains(t, w.node().Annotations[nodeIDs], name)
	}
}

// TestOutageDuringWrites: each call fails before and after its effect; a repetition completes the
// registration, and the removal.
func TestOutageDuringWrites(t *testing.T) {
	for _, after := range []bool{false, true} {
		for skip := range 6 {
			w := newCSINodeWorld(t)
			require.NoError(t, w.PutDriver(t.Context(), entry("a.example", "old"), nil))
			for _, step := range []func() error{
				func() error {
					return w.PutDriver(t.Context(), entry("a.example", "new", "rack"), map[string]string{"rack": "r1"})
				},
				func() error { return w.RemoveDriver(t.Context(), "a.example") },
			} {
				stop := w.server.Inject(apitest.Fault{
					Call: apitest.Call{Identity: agent}, Skip: skip, Times: 1, AfterEffect: after, Failure: apitest.InternalError,
				})
				if err := step(); err != nil {
					require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
				}
				stop()
				require.NoError(t, step())
			}
			require.Empty(t, w.entries())
			require.NotContains(t, w.node().Annotations, nodeIDs)
			require.Equal(t, "r1", w.node().Labels["rack"])
		}
	}
}

// TestCSINodeEndsWithItsContext: a call does not wait for one that hangs.
func TestCSINodeEndsWithItsContext(t *testing.T) {
	w := newCSINodeWorld(t)
	w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: agent}, Latency: time.Hour})
	ctx, cancel := context.WithCancelCause(t.Context())
	var calls sync.WaitGroup
	for range 2 {
		calls.Go(func() {
			if err := w.PutDriver(ctx, entry("a.example", "id-a"), nil); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
	cancel(nil)
	calls.Wait()
}

func ExampleCSINode() {
	ctx := context.Background()
	server := apitest.NewServer(apitest.Config{})
	_, _ = server.Direct().Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	drivers, err := node.NewCSINode(node.CSINodeConfig{Cluster: server.Connect("agent"), Node: "node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = drivers.PutDriver(ctx, storagev1.CSINodeDriver{
		Name: "nfs.example.com", NodeID: "node-1", TopologyKeys: []string{"example.com/zone"},
	}, map[string]string{"example.com/zone": "z1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	object, _ := server.Direct().CSINodes().Get(ctx, "node-1", metav1.GetOptions{})
	labelled, _ := server.Direct().Nodes().Get(ctx, "node-1", metav1.GetOptions{})
	fmt.Println(object.Spec.Drivers[0].Name, labelled.Labels)
	// Output: nfs.example.com map[example.com/zone:z1]
}
