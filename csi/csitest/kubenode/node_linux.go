package kubenode

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/kubeserver/nodesteps"
	"github.com/volumekit/volumekit/mount"
)

// Size is the size of volumes in bytes.
const Size = 1 << 30

// A Node is a real node with a driver.
type Node struct {
	*nodesteps.Node
	Clientset *kubernetes.Clientset
	Driver    *Driver // nil before StartDriver
}

// Start starts an API server and a node, in the namespaces of kubeserver.Isolate.
func Start(t *testing.T) *Node {
	t.Helper()
	server := kubeserver.Start(t)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}})
	require.NoError(t, err)
	core := clientset.CoreV1()
	n := &Node{Clientset: clientset, Node: &nodesteps.Node{
		T: t, Node: kubeserver.StartNode(t, server), Kernel: mount.New(mount.Config{}), Clients: nodesteps.Clients{
			Namespaces: core.Namespaces(), ServiceAccounts: core.ServiceAccounts(nodesteps.Namespace), Pods: core.Pods(nodesteps.Namespace),
			Claims: core.PersistentVolumeClaims(nodesteps.Namespace), Volumes: core.PersistentVolumes(),
		},
	}}
	n.CreateNamespace()
	return n
}

// Registry returns the directory in which drivers register.
func (n *Node) Registry() string { return filepath.Join(n.Root, "plugins_registry") }

// StartDriver creates the object of a driver, starts the driver, and waits until the kubelet has registered
// the driver.
func (n *Node) StartDriver(d *Driver, object *storagev1.CSIDriver) {
	n.Helper()
	_, err := n.Clientset.StorageV1().CSIDrivers().Create(n.Context(), object, metav1.CreateOptions{})
	require.NoError(n, err)
	require.NoError(n, os.MkdirAll(n.Registry(), 0o750))
	n.Driver = d
	d.Start(n.T)
	n.Await("the driver is registered", func() bool { return slices.Equal(n.registered(), []string{d.Name}) })
}

// registered returns the names of the drivers in the CSINode object.
func (n *Node) registered() (names []string) {
	object, err := n.Clientset.StorageV1().CSINodes().Get(n.Context(), n.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	for _, d := range object.Spec.Drivers {
		names = append(names, d.Name)
	}
	return names
}

// Controller returns a client of the driver's controller.
func (n *Node) Controller() csipb.ControllerClient {
	n.Helper()
	conn, err := grpc.NewClient("unix://"+n.Driver.Endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(n, err)
	n.Cleanup(func() { _ = conn.Close() })
	return csipb.NewControllerClient(conn)
}

// Capability is the capability of the volumes.
func Capability() *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{}},
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	}
}

// CreateVolume creates a volume of the driver, with a claim that is bound to it.
func (n *Node) CreateVolume(name string, topology *csipb.TopologyRequirement) *csipb.Volume {
	n.Helper()
	created, err := n.Controller().CreateVolume(n.Context(), &csipb.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csipb.VolumeCapability{Capability()}, AccessibilityRequirements: topology,
		CapacityRange: &csipb.CapacityRange{RequiredBytes: Size},
	})
	require.NoError(n, err)
	n.BindVolume(name, created.Volume)
	return created.Volume
}

// BindVolume creates the object of a volume, as a provisioner does, and a claim that is bound to it.
func (n *Node) BindVolume(name string, volume *csipb.Volume) {
	n.Helper()
	n.CreateClaim(nodesteps.Claim{
		Name: name, Volume: name, Size: *resource.NewQuantity(Size, resource.BinarySI), Affinity: affinityOf(volume),
		Source: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
			Driver: n.Driver.Name, VolumeHandle: volume.VolumeId, VolumeAttributes: volume.VolumeContext,
		}},
	})
}

// affinityOf returns the affinity of a volume to its topology. Nil: each node reaches the volume.
func affinityOf(volume *csipb.Volume) *v1.VolumeNodeAffinity {
	if len(volume.AccessibleTopology) == 0 {
		return nil
	}
	required := &v1.NodeSelector{}
	for _, topology := range volume.AccessibleTopology {
		term := v1.NodeSelectorTerm{}
		for key, value := range topology.Segments {
			term.MatchExpressions = append(term.MatchExpressions, v1.NodeSelectorRequirement{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}})
		}
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, term)
	}
	return &v1.VolumeNodeAffinity{Required: required}
}

// RequireUnstaged waits until the node has no volume, and no directory of a staged one. Mounts are looked
// for also below further directories.
func (n *Node) RequireUnstaged(further ...string) {
	n.Helper()
	n.Await("all is unmounted", func() bool { return len(n.Mounts(further...)) == 0 })
	n.Await("the staging directories are gone", func() bool { return len(n.Staged()) == 0 })
}

// Staged returns the names of the directories of staged volumes.
func (n *Node) Staged() (names []string) {
	n.Helper()
	left, err := os.ReadDir(filepath.Join(n.Root, "plugins/kubernetes.io/csi", n.Driver.Name))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(n, err)
	}
	for _, entry := range left {
		names = append(names, entry.Name())
	}
	return names
}
