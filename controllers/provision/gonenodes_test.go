package provision_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostAnnotation has the hostname of a volume's node.
const hostAnnotation = "example.com/host"

func hostOf(pv *v1.PersistentVolume) (string, bool) {
	hostname, ok := pv.Annotations[hostAnnotation]
	return hostname, ok
}

// onNode is the storage of a node.
type onNode struct {
	*storage
	node string
}

func (n onNode) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	pv, err := n.storage.Provision(ctx, o)
	if err == nil {
		pv.Annotations = map[string]string{hostAnnotation: "host-of-" + n.node}
	}
	return pv, err
}

func (w *world) createNamedNode(name string) {
	w.Helper()
	_, err := w.cluster.Nodes().Create(w.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1.LabelHostname: "host-of-" + name},
	}}, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) deleteNode(name string) {
	w.Helper()
	require.NoError(w, w.cluster.Nodes().Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// startOnNode starts the provisioner of a node.
func (w *world) startOnNode(name string) (end func()) {
	w.Helper()
	config := w.config
	defer func() { w.config = config }()
	w.config.Provisioner = onNode{w.storage, name}
	w.config.Qualifier = func(_ context.Context, claim *v1.PersistentVolumeClaim) bool {
		return claim.Annotations[provision.SelectedNodeAnnotation] == name
	}
	w.config.DeletionGuard = func(_ context.Context, pv *v1.PersistentVolume) bool {
		return pv.Annotations[hostAnnotation] == "host-of-"+name
	}
	_, end = w.startAs(name)
	return end
}

// startForGoneNodes starts the controller of the nodes that are gone.
func (w *world) startForGoneNodes() {
	w.Helper()
	config := w.config
	defer func() { w.config = config }()
	nodes := api.NewCache(w.server.Connect("nodes").Nodes(), api.CacheConfig{Consistent: true})
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- nodes.Run(ctx) }()
	w.ends = append(w.ends, func() { cancel(); <-ended })
	forGone := config
	forGone.Cluster = w.server.Connect("gone")
	w.config = provision.ForGoneNodes(forGone, nodes, hostOf)
	w.startAs("gone")
}

// inNodeWorld runs a test with two nodes and a class that waits for them. claim creates a claim on node-1.
func inNodeWorld(t *testing.T, test func(w *world, claim func(name string) *v1.PersistentVolumeClaim)) {
	t.Helper()
	inWorld(t, func(w *world) {
		w.createNamedNode("node-1")
		w.createNamedNode("node-2")
		class, late := newClass("c"), storagev1.VolumeBindingWaitForFirstConsumer
		class.VolumeBindingMode = &late
		w.createClass(class)
		test(w, func(name string) *v1.PersistentVolumeClaim {
			claim := newClaim(name, "c")
			claim.Annotations[provision.SelectedNodeAnnotation] = "node-1"
			return w.createClaim(claim)
		})
	})
}

func nodeOf(claim *v1.PersistentVolumeClaim) string {
	return claim.Annotations[provision.SelectedNodeAnnotation]
}

// TestClaimsOfGoneNode: a claim on a node that is gone waits for another node, also if the provisioner of the first one
// ended during its call. A claim in deletion ends.
func TestClaimsOfGoneNode(t *testing.T) {
	inNodeWorld(t, func(w *world, claim func(string) *v1.PersistentVolumeClaim) {
		w.storage.on("provision", slowly(time.Hour))
		end := w.startOnNode("node-1")
		claim("begun")
		claim("deleted")
		w.wait(time.Minute)
		end()
		w.storage.on("provision", nil)
		claim("new")
		w.deleteClaim("deleted")
		w.startForGoneNodes()
		w.startOnNode("node-2")
		w.finish()
		require.Equal(w, "node-1", nodeOf(w.claim("begun")), "the node exists")
		require.Contains(w, w.claim("begun").Finalizers, provision.ClaimFinalizer)
		require.NotNil(w, w.claim("deleted"))

		w.deleteNode("node-1")
		w.finish()
		require.Nil(w, w.claim("deleted"))
		for _, name := range []string{"begun", "new"} {
			require.Empty(w, nodeOf(w.claim(name)), name)
			require.NotContains(w, w.claim(name).Finalizers, provision.ClaimFinalizer, name)
			w.updateClaim(name, func(claim *v1.PersistentVolumeClaim) {
				claim.Annotations[provision.SelectedNodeAnnotation] = "node-2"
			})
		}
		w.finish()
		for _, name := range []string{"begun", "new"} {
			require.Equal(w, v1.ClaimBound, w.claim(name).Status.Phase)
		}
	})
}

// TestVolumesOfGoneNode: the released volume of a node that is gone has an event, and ends when a user deletes it. Other
// volumes stay.
func TestVolumesOfGoneNode(t *testing.T) {
	inNodeWorld(t, func(w *world, claim func(string) *v1.PersistentVolumeClaim) {
		end := w.startOnNode("node-1")
		released, bound := "pvc-"+string(claim("released").UID), "pvc-"+string(claim("bound").UID)
		w.finish()
		end()
		w.updateClaim("bound", func(claim *v1.PersistentVolumeClaim) {
			claim.Finalizers = append(claim.Finalizers, provision.ClaimFinalizer)
		})
		w.startForGoneNodes()
		w.deleteClaim("released")
		w.finish()
		require.Empty(w, w.eventsOf("VolumeFailedDelete"), "the node exists")

		w.deleteNode("node-1")
		w.wait(time.Hour)
		require.Equal(w, []string{`Warning VolumeFailedDelete: no provisioner has deleted the storage: ignored because the node with the hostname "host-of-node-1" is gone; delete the volume to give it up`}, w.eventsOf("VolumeFailedDelete"))
		require.NotNil(w, w.volume(released))
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), released, metav1.DeleteOptions{}))
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), bound, metav1.DeleteOptions{}))
		w.finish()
		require.Nil(w, w.volume(released))
		require.Contains(w, w.volume(bound).Finalizers, provision.VolumeFinalizer, "its claim lives")
		require.Zero(w, w.storage.callsOf("delete"))
		require.Equal(w, "node-1", nodeOf(w.claim("bound")))
		require.NotContains(w, w.claim("bound").Finalizers, provision.ClaimFinalizer)
	})
}

// TestNodesAreNotSeen: nothing changes while the nodes cannot be read, and nothing by an old list of them.
func TestNodesAreNotSeen(t *testing.T) {
	inNodeWorld(t, func(w *world, claim func(string) *v1.PersistentVolumeClaim) {
		w.startOnNode("node-1")
		pv := "pvc-" + string(claim("a").UID)
		w.finish()
		w.storage.on("provision", slowly(time.Hour))
		claim("b")
		w.wait(time.Minute)
		w.stopAll()
		w.deleteClaim("a")
		remove := w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "nodes"}, Failure: apitest.Unavailable})
		w.startForGoneNodes()
		w.finish()
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), pv, metav1.DeleteOptions{}))
		w.wait(time.Hour)
		require.Equal(w, "node-1", nodeOf(w.claim("b")))
		require.Contains(w, w.volume(pv).Finalizers, provision.VolumeFinalizer)
		require.Empty(w, w.server.Calls(apitest.Call{Identity: "gone", Resource: "nodes"}))

		// The cache misses the return of the node.
		w.deleteNode("node-1")
		w.server.InjectEvents(apitest.EventFault{Identity: "nodes", Delay: 24 * time.Hour})
		block := w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "gone", Verb: apitest.Get, Resource: "nodes"}, Failure: apitest.Unavailable})
		blockLists := w.server.Inject(apitest.Fault{Call: apitest.Call{Identity: "gone", Verb: apitest.List, Resource: "nodes"}, Failure: apitest.Unavailable})
		remove()
		w.wait(time.Hour)
		w.createNamedNode("node-1")
		block()
		blockLists()
		w.wait(time.Hour)
		require.Equal(w, "node-1", nodeOf(w.claim("b")))
		require.Contains(w, w.claim("b").Finalizers, provision.ClaimFinalizer)
		require.Contains(w, w.volume(pv).Finalizers, provision.VolumeFinalizer)
	})
}

// begin makes a claim on node-1 whose provisioner ends during its call.
func (w *world) begin(claim func(string) *v1.PersistentVolumeClaim, name string) {
	w.Helper()
	w.storage.on("provision", slowly(time.Hour))
	end := w.startOnNode("node-1")
	claim(name)
	w.wait(time.Minute)
	end()
	w.storage.on("provision", nil)
	require.Contains(w, w.claim(name).Finalizers, provision.ClaimFinalizer)
}

// TestBegunClaimsOfGoneNode: the claim of an unfinished call can end, also after it or its class has changed.
func TestBegunClaimsOfGoneNode(t *testing.T) {
	deleteClass := func(w *world) {
		require.NoError(w, w.cluster.StorageClasses().Delete(w.Context(), "c", metav1.DeleteOptions{}))
	}
	for name, change := range map[string]func(w *world){
		"the class is gone": deleteClass,
		"the class waits for no node": func(w *world) {
			deleteClass(w)
			w.createClass(newClass("c"))
		},
		"lost": func(w *world) {
			w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeName = "pvc-" + string(claim.UID) })
			claim := w.claim("a")
			claim.Status.Phase = v1.ClaimLost
			_, err := w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
			require.NoError(w, err)
		},
		"discarded": func(w *world) {
			w.updateClaim("a", func(claim *v1.PersistentVolumeClaim) {
				claim.Annotations[provision.DiscardAnnotation] = "begun x"
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inNodeWorld(t, func(w *world, claim func(string) *v1.PersistentVolumeClaim) {
				w.begin(claim, "a")
				change(w)
				w.deleteClaim("a")
				w.deleteNode("node-1")
				w.startForGoneNodes()
				w.wait(time.Hour)
				require.Nil(w, w.claim("a"))
			})
		})
	}
}

// TestUnusualClaimsOfGoneNode: a claim leaves the node, whether or not it can be fulfilled.
func TestUnusualClaimsOfGoneNode(t *testing.T) {
	inNodeWorld(t, func(w *world, _ func(string) *v1.PersistentVolumeClaim) {
		attributes, block := "A_B", v1.PersistentVolumeBlock
		for name, change := range map[string]func(*v1.PersistentVolumeClaim){
			"of-a-populator": from("example.com", "Backup"),
			"of-a-snapshot":  from("snapshot.storage.k8s.io", "VolumeSnapshot"),
			"block":          func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeMode = &block },
			"attributes":     func(claim *v1.PersistentVolumeClaim) { claim.Spec.VolumeAttributesClassName = &attributes },
			"no-name":        func(claim *v1.PersistentVolumeClaim) { claim.Annotations[provision.SelectedNodeAnnotation] = "A_B" },
		} {
			claim := newClaim(name, "c")
			claim.Annotations[provision.SelectedNodeAnnotation] = "node-1"
			change(claim)
			w.createClaim(claim)
			defer func() { require.Empty(w, nodeOf(w.claim(name)), name) }()
		}
		w.deleteNode("node-1")
		w.startForGoneNodes()
		w.wait(time.Hour)
	})
}

// TestNodeComesBack: a claim keeps the finalizer and the node if the node comes back before the patch that removes them,
// and the controller forgets the claim.
func TestNodeComesBack(t *testing.T) {
	inNodeWorld(t, func(w *world, claim func(string) *v1.PersistentVolumeClaim) {
		w.begin(claim, "a")
		w.deleteNode("node-1")
		patches := apitest.Call{Identity: "gone", Verb: apitest.Patch, Resource: "persistentvolumeclaims"}
		remove := w.server.Inject(apitest.Fault{Call: patches, Failure: apitest.Unavailable})
		w.startForGoneNodes()
		w.wait(time.Minute)
		require.NotEmpty(w, w.server.Calls(patches))
		w.createNamedNode("node-1")
		w.storage.on("provision", slowly(time.Hour))
		w.startOnNode("node-1")
		w.wait(time.Minute)
		remove()
		w.wait(30 * time.Minute)
		require.Equal(w, "node-1", nodeOf(w.claim("a")))
		require.Contains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
		w.server.ForgetCalls()
		w.wait(24 * time.Hour)
		require.Empty(w, w.server.Calls(apitest.Call{Identity: "gone", Resource: "nodes"}))
	})
}

// TestNodeWithoutHostname: a volume is kept while its node could be one without a hostname.
func TestNodeWithoutHostname(t *testing.T) {
	inNodeWorld(t, func(w *world, claim func(string) *v1.PersistentVolumeClaim) {
		end := w.startOnNode("node-1")
		pv := "pvc-" + string(claim("a").UID)
		w.finish()
		end()
		node, err := w.cluster.Nodes().Get(w.Context(), "node-1", metav1.GetOptions{})
		require.NoError(w, err)
		node.Labels = nil
		_, err = w.cluster.Nodes().Update(w.Context(), node, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.deleteClaim("a")
		w.startForGoneNodes()
		w.finish()
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), pv, metav1.DeleteOptions{}))
		w.finish()
		require.NotNil(w, w.volume(pv))
	})
}

// TestForGoneNodesInvalid: the arguments are required.
func TestForGoneNodesInvalid(t *testing.T) {
	config := provision.Config{Name: driver, Cluster: apitest.NewServer(apitest.Config{}).Direct()}
	nodes := api.NewCache(config.Cluster.Nodes(), api.CacheConfig{})
	_, err := provision.New(provision.ForGoneNodes(config, nil, hostOf))
	require.ErrorContains(t, err, "ForGoneNodes.nodes: Required value")
	_, err = provision.New(provision.ForGoneNodes(config, nodes, nil))
	require.ErrorContains(t, err, "ForGoneNodes.hostOf: Required value")
}
