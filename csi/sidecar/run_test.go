package sidecar_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
)

// attach creates the VolumeAttachment of a volume, as the attach/detach controller does.
func (w *world) attach(pv *v1.PersistentVolume, node string) *storagev1.VolumeAttachment {
	return create(w, w.cluster.VolumeAttachments(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "attachment-" + pv.Name + "-" + node},
		Spec:       storagev1.VolumeAttachmentSpec{Attacher: driverName, NodeName: node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv.Name}},
	})
}

func (w *world) attachment(name string) (*storagev1.VolumeAttachment, error) {
	return w.cluster.VolumeAttachments().Get(w.Context(), name, metav1.GetOptions{})
}

// expand changes the request of a claim.
func (w *world) expand(name, size string) {
	claim := w.claim(name)
	claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse(size)
	_, err := w.cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// TestRun: a claim is provisioned, attached, expanded while it is attached, detached and deleted, and nothing is
// left. The driver reads its capabilities once, and no text has a secret.
func TestRun(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.config.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
		w.runOthers()
		stop := w.run()
		parameters := map[string]string{parameterKey + "secret-name": "login", parameterKey + "secret-namespace": "storage", "tier": "fast"}
		w.createSecret("storage", "login")
		w.createClass(parameters, nil)
		w.createNode("a", "north")
		w.settle() // a volume has a topology only if the sidecar knows a node of the driver
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("data"))
		w.settle()
		pv := w.volumeOf("data")
		require.Equal(w, "pvc-"+string(w.claim("data").UID), pv.Name)
		require.NotNil(w, pv.Spec.NodeAffinity)

		attachment := w.attach(pv, "a")
		w.settle()
		attachment, err := w.attachment(attachment.Name)
		require.NoError(w, err)
		require.True(w, attachment.Status.Attached, "%v", attachment.Status)
		require.Equal(w, map[string]string{"device": "7"}, attachment.Status.AttachmentMetadata)

		w.expand("data", "3Gi")
		w.settle()
		capacity := w.claim("data").Status.Capacity[v1.ResourceStorage]
		require.Equal(w, "3Gi", capacity.String(), "%s", w.eventTexts())

		require.NoError(w, w.cluster.VolumeAttachments().Delete(w.Context(), attachment.Name, metav1.DeleteOptions{}))
		w.settle()
		_, err = w.attachment(attachment.Name)
		require.True(w, apierrors.IsNotFound(err), "%v", err)
		require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "data", metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		w.settle()
		_, err = w.cluster.PersistentVolumes().Get(w.Context(), pv.Name, metav1.GetOptions{})
		require.True(w, apierrors.IsNotFound(err), "%v %s", err, w.eventTexts())
		require.Empty(w, w.driver.Volumes())
		require.Empty(w, w.driver.Violations())
		require.Len(w, w.texts(csitest.ControllerGetCapabilities), 1)
		stop()
		require.NotContains(w, w.eventTexts()+w.log.String(), secretText)
	})
}

// TestSecretsStayOut: a secret that a driver repeats in its errors is in no event, status and log.
func TestSecretsStayOut(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.config.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
		w.createSecret("storage", "login")
		w.createClass(map[string]string{parameterKey + "secret-name": "login", parameterKey + "secret-namespace": "storage"}, nil)
		w.createNode("a", "north")
		for _, method := range []csitest.Method{csitest.CreateVolume, csitest.ControllerPublishVolume, csitest.ControllerExpandVolume, csitest.ControllerUnpublishVolume, csitest.DeleteVolume} {
			w.driver.Inject(csitest.Fault{Method: method, Code: codes.Internal, Message: "login with " + secretText + " failed", Times: 2})
		}
		w.runOthers()
		stop := w.run()
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("data"))
		time.Sleep(time.Minute)
		pv := w.volumeOf("data")
		attachment := w.attach(pv, "a")
		w.settle()
		attachment, err := w.attachment(attachment.Name)
		require.NoError(w, err)
		if failure := attachment.Status.AttachError; failure != nil {
			require.NotContains(w, failure.Message, secretText)
		}
		time.Sleep(time.Minute)
		w.expand("data", "3Gi")
		time.Sleep(time.Minute)
		require.NoError(w, w.cluster.VolumeAttachments().Delete(w.Context(), attachment.Name, metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "data", metav1.DeleteOptions{}))
		time.Sleep(5 * time.Minute)
		require.Empty(w, w.driver.Volumes())
		stop()
		texts := w.eventTexts() + w.log.String()
		require.Contains(w, texts, "login with ***stripped*** failed")
		require.NotContains(w, texts, secretText)
	})
}

// TestRestart: a run that ends at any moment is continued by the next one, with the same calls.
func TestRestart(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.runOthers()
		w.createClass(nil, nil)
		w.createNode("a", "north")
		w.driver.Inject(csitest.Fault{Method: csitest.CreateVolume, Code: codes.DeadlineExceeded, After: true, Times: 1})
		stop := w.run()
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("data"))
		require.Eventually(w, func() bool { return len(w.driver.Volumes()) == 1 }, time.Hour, time.Millisecond)
		stop()
		require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), "data", metav1.DeleteOptions{}))
		w.settle()
		w.run()
		time.Sleep(5 * time.Minute)
		require.Empty(w, w.driver.Volumes(), "the volume of the interrupted call is deleted: %s", w.eventTexts())
		require.Empty(w, w.driver.Violations())
	})
}

// TestReschedule: a driver that is full in the topology of the selected node gets a claim of another node, and the
// volume is in the topology of that one.
func TestReschedule(t *testing.T) {
	const selected = "volume.kubernetes.io/selected-node"
	inWorld(t, all, func(w *world) {
		w.config.Provision.StrictTopology = true
		w.createNode("a", "north")
		w.createNode("b", "south")
		w.waitingClass("class", nil)
		w.driver.Inject(csitest.Fault{Method: csitest.CreateVolume, Code: codes.ResourceExhausted, Times: 1})
		w.runOthers()
		w.run()
		claim := newClaim("data")
		claim.Annotations = map[string]string{selected: "a"}
		create(w, w.cluster.PersistentVolumeClaims(namespace), claim)
		w.settle()
		require.NotContains(w, w.claim("data").Annotations, selected, "%s", w.eventTexts())

		_, err := w.cluster.PersistentVolumeClaims(namespace).Patch(w.Context(), "data", types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+selected+`":"b"}}}`), metav1.PatchOptions{})
		require.NoError(w, err)
		time.Sleep(time.Minute)
		w.settle()
		affinity := w.volumeOf("data").Spec.NodeAffinity.Required.NodeSelectorTerms
		require.Equal(w, []string{"south"}, affinity[0].MatchExpressions[0].Values)
		require.Empty(w, w.driver.Violations())
	})
}

// TestCompanions: exactly those companions run that the capabilities allow, with the caches that they need.
func TestCompanions(t *testing.T) {
	type rpc = csipb.ControllerServiceCapability_RPC_Type
	const (
		creates   = csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME
		publishes = csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME
		expands   = csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME
		modifies  = csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME
		measures  = csipb.ControllerServiceCapability_RPC_GET_CAPACITY
	)
	controller := []csipb.PluginCapability_Service_Type{csipb.PluginCapability_Service_CONTROLLER_SERVICE}
	topology := append(controller[:1:1], csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS)
	for _, c := range []struct {
		name    string
		plugin  []csipb.PluginCapability_Service_Type
		rpcs    []rpc
		node    []csipb.NodeServiceCapability_RPC_Type
		config  func(*sidecar.Config)
		watches []string
	}{
		{name: "none"},
		{name: "controller without capabilities", plugin: controller},
		{name: "provisioner", plugin: controller, rpcs: []rpc{creates}, watches: []string{"persistentvolumeclaims", "persistentvolumes", "storageclasses"}},
		{name: "provisioner with topology", plugin: topology, rpcs: []rpc{creates}, watches: []string{"csinodes", "nodes", "persistentvolumeclaims", "persistentvolumes", "storageclasses"}},
		{name: "topology left out", plugin: topology, rpcs: []rpc{creates}, config: func(c *sidecar.Config) { c.Provision.WithoutTopology = true },
			watches: []string{"persistentvolumeclaims", "persistentvolumes", "storageclasses"}},
		{name: "attacher", plugin: controller, rpcs: []rpc{publishes}, watches: []string{"csinodes", "persistentvolumes", "volumeattachments"}},
		{name: "marked as attached", plugin: controller, config: func(c *sidecar.Config) { c.MarkAttached = true }, watches: []string{"csinodes", "persistentvolumes", "volumeattachments"}},
		{name: "expander", plugin: controller, rpcs: []rpc{expands}, watches: []string{"persistentvolumeclaims", "persistentvolumes"}},
		{name: "expander on nodes", node: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_EXPAND_VOLUME}, watches: []string{"persistentvolumeclaims", "persistentvolumes"}},
		{name: "modifier", plugin: controller, rpcs: []rpc{modifies}, watches: []string{"persistentvolumeclaims", "persistentvolumes"}},
		{name: "capacity", plugin: controller, rpcs: []rpc{measures}, config: func(c *sidecar.Config) { c.Capacity = &sidecar.CapacityConfig{Namespace: namespace} },
			watches: []string{"csistoragecapacities", "storageclasses"}},
		{name: "capacity without a namespace for its objects", plugin: controller, rpcs: []rpc{measures}},
		{name: "all", plugin: topology, rpcs: []rpc{creates, publishes, expands, measures}, config: func(c *sidecar.Config) { c.Capacity = &sidecar.CapacityConfig{Namespace: namespace} },
			watches: []string{"csinodes", "csistoragecapacities", "nodes", "persistentvolumeclaims", "persistentvolumes", "storageclasses", "volumeattachments"}},
		{name: "all left out", plugin: topology, rpcs: []rpc{creates, publishes, expands, modifies}, config: func(c *sidecar.Config) {
			c.WithoutProvisioner, c.WithoutAttacher, c.WithoutExpander, c.WithoutModifier = true, true, true, true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, csitest.Capabilities{Plugin: c.plugin, Controller: c.rpcs, Node: c.node}, func(w *world) {
				if c.config != nil {
					c.config(&w.config)
				}
				w.run()
				w.settle()
				var watched []string
				for _, open := range w.server.OpenWatches("sidecar") {
					watched = append(watched, open.Resource)
				}
				require.ElementsMatch(w, c.watches, watched)
			})
		})
	}
}

// TestRunWaitsForTheDriver: Run waits for a driver that does not answer, or is not ready, and ends while it waits.
func TestRunWaitsForTheDriver(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.driver.Inject(csitest.Fault{Method: csitest.Probe, Code: codes.Unavailable, Times: 3})
		w.driver.SetReady(false)
		stop := w.run()
		time.Sleep(time.Minute)
		require.Empty(w, w.texts(csitest.GetPluginInfo))
		w.driver.SetReady(true)
		w.settle()
		require.Len(w, w.texts(csitest.ControllerGetCapabilities), 1)
		stop()

		w.driver.SetReady(false)
		stop = w.run()
		w.settle()
		stop()
	})
}

// TestBadName: a driver with a name that objects cannot carry is refused.
func TestBadName(t *testing.T) {
	for _, name := range []string{"", "a b", "-x", "\u212a", string(make([]byte, 64))} {
		d := csitest.NewDriver(csitest.Config{Name: name, Capabilities: all})
		if name == "" {
			continue // the default of csitest
		}
		_, err := sidecar.Open(t.Context(), sidecar.DriverConfig{Conn: d.Conn()})
		require.ErrorContains(t, err, "name of the driver")
	}
	d := csitest.NewDriver(csitest.Config{Name: "Upper.Example.com", Capabilities: all})
	opened, err := sidecar.Open(t.Context(), sidecar.DriverConfig{Conn: d.Conn()})
	require.NoError(t, err)
	require.Equal(t, "Upper.Example.com", opened.Name())
	require.NoError(t, opened.Close())
}

// TestInvalidConfigs: an invalid configuration is an error that names the field.
func TestInvalidConfigs(t *testing.T) {
	inWorld(t, all, func(w *world) {
		for text, change := range map[string]func(*sidecar.Config){
			"Cluster":              func(c *sidecar.Config) { c.Cluster = nil },
			"Capacity.Namespace":   func(c *sidecar.Config) { c.Capacity = &sidecar.CapacityConfig{} },
			"PollInterval":         func(c *sidecar.Config) { c.Capacity = &sidecar.CapacityConfig{Namespace: "n", PollInterval: -1} },
			"Workers":              func(c *sidecar.Config) { c.Workers = -1 },
			"Timeout":              func(c *sidecar.Config) { c.Timeout = -1 },
			"Backoff":              func(c *sidecar.Config) { c.Backoff = -1 },
			"ExpandTimeout":        func(c *sidecar.Config) { c.ExpandTimeout = -1 },
			"ModifyTimeout":        func(c *sidecar.Config) { c.ModifyTimeout = -1 },
			"ListEvery":            func(c *sidecar.Config) { c.ListEvery = -1 },
			"Resync":               func(c *sidecar.Config) { c.Resync = -1 },
			"VolumeNamePrefix":     func(c *sidecar.Config) { c.Provision.VolumeNamePrefix = "A b" },
			"VolumeNameUUIDLength": func(c *sidecar.Config) { c.Provision.VolumeNameUUIDLength = 33 },
			"endpoint":             func(c *sidecar.Config) { c.Conn, c.Endpoint = nil, "relative" },
		} {
			config := w.config
			change(&config)
			require.ErrorContains(w, sidecar.Run(w.Context(), config), text)
		}
		ended, cancel := context.WithCancel(w.Context())
		cancel()
		require.NoError(w, sidecar.Run(ended, w.config))
	})
}

// TestVolumeNames: the names of volumes are those of external-provisioner for its flags.
func TestVolumeNames(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.config.Provision = sidecar.ProvisionConfig{VolumeNamePrefix: "vol", VolumeNameUUIDLength: 8, WithoutTopology: true}
		w.runOthers()
		w.run()
		w.createClass(nil, nil)
		claim := create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("data"))
		w.settle()
		require.Equal(w, "vol-"+string(claim.UID)[:8], w.volumeOf("data").Name)
	})
}
