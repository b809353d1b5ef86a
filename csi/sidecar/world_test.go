package sidecar_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
)

const (
	driverName = "d.example.com"
	namespace  = "team"
	secretText = "hunter2-hunter2"
)

// all are the capabilities of a driver with each of them.
var all = csitest.Capabilities{
	Plugin: []csipb.PluginCapability_Service_Type{
		csipb.PluginCapability_Service_CONTROLLER_SERVICE, csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	},
	Expansion: []csipb.PluginCapability_VolumeExpansion_Type{csipb.PluginCapability_VolumeExpansion_ONLINE},
	Controller: []csipb.ControllerServiceCapability_RPC_Type{
		csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csipb.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME,
		csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
		csipb.ControllerServiceCapability_RPC_PUBLISH_READONLY,
		csipb.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csipb.ControllerServiceCapability_RPC_LIST_VOLUMES_PUBLISHED_NODES,
		csipb.ControllerServiceCapability_RPC_GET_CAPACITY,
		csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
		csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	},
}

// A world is a cluster with a driver, in a bubble of testing/synctest.
type world struct {
	*testing.T
	server  *apitest.Server
	cluster api.Cluster // of the test
	driver  *csitest.Driver
	config  sidecar.Config

	mu     sync.Mutex
	events []string
	log    strings.Builder
	ends   []func()
}

// inWorld runs a test in a bubble with a driver of these capabilities.
func inWorld(t *testing.T, capabilities csitest.Capabilities, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{Seed: 1})
		w := &world{T: t, server: server, cluster: server.Direct()}
		w.driver = csitest.NewDriver(csitest.Config{
			Name: driverName, Capabilities: capabilities, KnownVolumes: true, PublishContext: map[string]string{"device": "7"},
		})
		w.config = sidecar.Config{Conn: w.driver.Conn(), Cluster: server.Connect("sidecar"), Events: w.record}
		for _, name := range []string{namespace, "storage"} {
			create(t, w.cluster.Namespaces(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		}
		defer func() {
			for _, end := range w.ends {
				end()
			}
		}()
		test(w)
	})
}

func (w *world) record(e api.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e.Type+" "+e.Reason+": "+e.Message)
}

// eventTexts returns the events so far.
func (w *world) eventTexts() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.events, "\n")
}

// start runs a part until the end of the test, or until stop is called.
func (w *world) start(run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.NoError(w, <-ended) // OnceFunc panics for a function that ends its goroutine
	})
	w.ends = append(w.ends, stop)
	return stop
}

// run runs the sidecar.
func (w *world) run() (stop func()) {
	return w.start(func(ctx context.Context) error { return sidecar.Run(ctx, w.config) })
}

// runOthers runs the parts of a control plane that the sidecar works with.
func (w *world) runOthers() {
	binder, err := bind.New(bind.Config{Cluster: w.cluster})
	require.NoError(w, err)
	w.start(binder.Run)
	protection, err := protect.New(protect.Config{Cluster: w.cluster})
	require.NoError(w, err)
	w.start(protection.Run)
}

// settle waits until nothing happens any more without a timer.
func (w *world) settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func create[O api.Object](t testing.TB, client api.Writer[O], object O) O {
	t.Helper()
	created, err := client.Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

func (w *world) createClass(parameters map[string]string, change func(*storagev1.StorageClass)) *storagev1.StorageClass {
	grows := true
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "class"}, Provisioner: driverName, Parameters: parameters, AllowVolumeExpansion: &grows}
	if change != nil {
		change(class)
	}
	return create(w, w.cluster.StorageClasses(), class)
}

// newClaim returns a claim of the class "class" with 1 GiB.
func newClaim(name string) *v1.PersistentVolumeClaim {
	class := "class"
	return &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name)},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

// createNode creates a node with the driver, in a zone.
func (w *world) createNode(name, zone string) *v1.Node {
	node := create(w, w.cluster.Nodes(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}})
	create(w, w.cluster.CSINodes(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: "id-" + name, TopologyKeys: []string{"zone"}}}},
	})
	return node
}

func (w *world) createSecret(ns, name string) {
	create(w, w.cluster.Secrets(ns), &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string][]byte{"password": []byte(secretText)}})
}

func (w *world) claim(name string) *v1.PersistentVolumeClaim {
	claim, err := w.cluster.PersistentVolumeClaims(namespace).Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	return claim
}

// volumeOf returns the volume of a bound claim.
func (w *world) volumeOf(name string) *v1.PersistentVolume {
	claim := w.claim(name)
	require.Equal(w, v1.ClaimBound, claim.Status.Phase, "%s", w.eventTexts())
	pv, err := w.cluster.PersistentVolumes().Get(w.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
	require.NoError(w, err)
	return pv
}

// open opens the driver, until the end of the test.
func (w *world) open() *sidecar.Driver {
	d, err := sidecar.Open(w.Context(), sidecar.DriverConfig{Conn: w.driver.Conn()})
	require.NoError(w, err)
	w.ends = append(w.ends, func() { require.NoError(w, d.Close()) })
	return d
}

// provisioner returns the provisioner of the driver.
func (w *world) provisioner(config sidecar.ProvisionConfig) provision.Provisioner {
	csiNodes := api.NewCache(w.cluster.CSINodes(), api.CacheConfig{})
	nodes := api.NewCache(w.cluster.Nodes(), api.CacheConfig{})
	w.start(csiNodes.Run)
	w.start(nodes.Run)
	require.NoError(w, csiNodes.WaitForSync(w.Context()))
	require.NoError(w, nodes.WaitForSync(w.Context()))
	p, err := sidecar.NewProvisioner(w.open(), sidecar.ProvisionerConfig{Cluster: w.cluster, Provision: config, CSINodes: csiNodes, Nodes: nodes})
	require.NoError(w, err)
	return p
}

// options returns the options for a claim.
func (w *world) options(class *storagev1.StorageClass, claim *v1.PersistentVolumeClaim) provision.Options {
	return provision.Options{PVName: "pvc-" + claim.Name, PVC: claim, StorageClass: *class}
}

// texts returns the calls of methods, one in a line.
func (w *world) texts(methods ...csitest.Method) (lines []string) {
	for _, call := range w.driver.CallsOf(methods...) {
		lines = append(lines, fmt.Sprint(call))
	}
	return lines
}

// without returns capabilities without one of the controller service.
func without(c csitest.Capabilities, rpc ...csipb.ControllerServiceCapability_RPC_Type) csitest.Capabilities {
	var rest []csipb.ControllerServiceCapability_RPC_Type
	for _, declared := range c.Controller {
		isLeftOut := false
		for _, out := range rpc {
			isLeftOut = isLeftOut || out == declared
		}
		if !isLeftOut {
			rest = append(rest, declared)
		}
	}
	c.Controller = rest
	return c
}
