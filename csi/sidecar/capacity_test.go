package sidecar_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
)

var measuring = csitest.Capabilities{
	Plugin: []csipb.PluginCapability_Service_Type{
		csipb.PluginCapability_Service_CONTROLLER_SERVICE, csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS,
	},
	Controller: []csipb.ControllerServiceCapability_RPC_Type{csipb.ControllerServiceCapability_RPC_GET_CAPACITY},
}

// capacities returns the objects in the namespace, one in a line.
func (w *world) capacities() (lines []string) {
	list, err := w.cluster.CSIStorageCapacities(namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	for _, c := range list.Items {
		most := "unknown"
		if c.MaximumVolumeSize != nil {
			most = c.MaximumVolumeSize.String()
		}
		lines = append(lines, fmt.Sprintf("%s %v %s %s", c.StorageClassName, c.NodeTopology.MatchLabels, c.Capacity.String(), most))
	}
	slices.Sort(lines)
	return lines
}

func (w *world) waitingClass(name string, parameters map[string]string) {
	w.createClass(parameters, func(c *storagev1.StorageClass) {
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		c.Name, c.VolumeBindingMode = name, &mode
	})
}

// TestCapacities: an object for each class and topology has the capacity that the driver reports, is written when
// the capacity changes, and is deleted with class and topology. The driver is queried once in each interval.
func TestCapacities(t *testing.T) {
	inWorld(t, measuring, func(w *world) {
		owner := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "driver", UID: "uid"}
		w.config.Capacity = &sidecar.CapacityConfig{Namespace: namespace, Owner: owner, PollInterval: time.Minute}
		w.createNode("a", "north")
		w.createNode("b", "south")
		w.createNode("c", "south")
		w.waitingClass("fast", map[string]string{"tier": "fast", parameterKey + "fstype": "xfs"})
		w.createClass(nil, func(c *storagev1.StorageClass) { c.Name = "immediate" })
		w.createClass(nil, func(c *storagev1.StorageClass) { c.Name, c.Provisioner = "other", "other.example.com" })
		stop := w.run()
		w.settle()
		require.Equal(w, []string{"fast map[zone:north] 1Ti unknown", "fast map[zone:south] 1Ti unknown"}, w.capacities())
		require.Equal(w, []string{
			"GetCapacity parameters={tier=fast} accessible_topology={segments={zone=north}}",
			"GetCapacity parameters={tier=fast} accessible_topology={segments={zone=south}}",
		}, w.texts(csitest.GetCapacity))
		list, err := w.cluster.CSIStorageCapacities(namespace).List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		require.Equal(w, []metav1.OwnerReference{*owner}, list.Items[0].OwnerReferences)
		require.Equal(w, map[string]string{"csi.storage.k8s.io/drivername": driverName, "csi.storage.k8s.io/managed-by": "external-provisioner"}, list.Items[0].Labels)
		version := list.Items[0].ResourceVersion

		time.Sleep(10 * time.Minute)
		w.settle()
		require.Len(w, w.texts(csitest.GetCapacity), 2+2*10)
		list, err = w.cluster.CSIStorageCapacities(namespace).List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		require.Equal(w, version, list.Items[0].ResourceVersion)
		require.Empty(w, w.server.Calls(apitest.Call{Identity: "sidecar", Verb: "update"}), "an equal capacity is not written")

		w.driver.Inject(csitest.Fault{Method: csitest.GetCapacity, Answer: func(answer proto.Message) {
			answer.(*csipb.GetCapacityResponse).AvailableCapacity = 1 << 30
			answer.(*csipb.GetCapacityResponse).MaximumVolumeSize = wrapperspb.Int64(1 << 20)
		}})
		w.createNode("d", "west")
		w.settle()
		require.Equal(w, []string{"fast map[zone:north] 1Ti unknown", "fast map[zone:south] 1Ti unknown", "fast map[zone:west] 1Gi 1Mi"}, w.capacities(), "a new topology at once, the others in the next interval")
		time.Sleep(time.Minute)
		w.settle()
		require.Equal(w, []string{"fast map[zone:north] 1Gi 1Mi", "fast map[zone:south] 1Gi 1Mi", "fast map[zone:west] 1Gi 1Mi"}, w.capacities())

		require.NoError(w, w.cluster.Nodes().Delete(w.Context(), "d", metav1.DeleteOptions{}))
		w.settle()
		require.Len(w, w.capacities(), 2)
		require.NoError(w, w.cluster.StorageClasses().Delete(w.Context(), "fast", metav1.DeleteOptions{}))
		w.settle()
		require.Empty(w, w.capacities())
		stop()
		require.Empty(w, w.driver.Violations())
	})
}

// TestOldCapacities: objects of an earlier run, and of external-provisioner, are continued, without second ones.
func TestOldCapacities(t *testing.T) {
	inWorld(t, measuring, func(w *world) {
		w.config.Capacity = &sidecar.CapacityConfig{Namespace: namespace}
		w.createNode("a", "north")
		w.waitingClass("fast", nil)
		labels := map[string]string{"csi.storage.k8s.io/drivername": driverName, "csi.storage.k8s.io/managed-by": "external-provisioner"}
		size := resource.MustParse("1")
		old := func(name string, labels map[string]string, topology *metav1.LabelSelector) {
			create(w, w.cluster.CSIStorageCapacities(namespace), &storagev1.CSIStorageCapacity{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}, StorageClassName: "fast", Capacity: &size, NodeTopology: topology,
			})
		}
		north := &metav1.LabelSelector{MatchLabels: map[string]string{"zone": "north"}}
		old("csisc-a", labels, north)
		time.Sleep(time.Minute)
		old("csisc-b", labels, north)
		old("csisc-c", labels, nil)
		old("foreign", map[string]string{"csi.storage.k8s.io/drivername": "other"}, north)
		w.run()
		w.settle()
		list, err := w.cluster.CSIStorageCapacities(namespace).List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		var names []string
		for _, c := range list.Items {
			names = append(names, c.Name+" "+c.Capacity.String())
		}
		require.ElementsMatch(w, []string{"csisc-a 1Ti", "foreign 1"}, names)
	})
}

// TestCapacityOwner: an object of an earlier run receives the owner once, and keeps its own, also with an equal capacity.
func TestCapacityOwner(t *testing.T) {
	yes := true
	earlier := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "earlier", UID: "uid-1", Controller: &yes}
	demoted := earlier
	demoted.Controller = nil
	member := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "driver", UID: "uid-2"}
	controller := member
	controller.Controller = &yes
	for name, c := range map[string]struct {
		before *metav1.OwnerReference
		owner  *metav1.OwnerReference
		want   []metav1.OwnerReference
	}{
		"first":      {nil, &member, []metav1.OwnerReference{member}},
		"second":     {&earlier, &member, []metav1.OwnerReference{earlier, member}},
		"controller": {&earlier, &controller, []metav1.OwnerReference{demoted, controller}},
		"same":       {&member, &member, []metav1.OwnerReference{member}},
		"none":       {&earlier, nil, []metav1.OwnerReference{earlier}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, measuring, func(w *world) {
				w.config.Capacity = &sidecar.CapacityConfig{Namespace: namespace, Owner: c.before}
				w.createNode("a", "north")
				w.waitingClass("fast", nil)
				stop := w.run()
				w.settle()
				stop()
				w.config.Capacity = &sidecar.CapacityConfig{Namespace: namespace, Owner: c.owner}
				w.run()
				time.Sleep(10 * time.Minute)
				list, err := w.cluster.CSIStorageCapacities(namespace).List(w.Context(), metav1.ListOptions{})
				require.NoError(w, err)
				require.Equal(w, c.want, list.Items[0].OwnerReferences)
				require.LessOrEqual(w, len(w.server.Calls(apitest.Call{Identity: "sidecar", Verb: "update"})), 1)
			})
		})
	}
}

// TestForeignCapacity: an object that has the name of one of ours, and other labels, stays as it is, and is
// reported.
func TestForeignCapacity(t *testing.T) {
	inWorld(t, measuring, func(w *world) {
		w.config.Capacity = &sidecar.CapacityConfig{Namespace: namespace}
		w.config.Logger = slog.New(slog.NewTextHandler(&w.log, nil))
		w.createNode("a", "north")
		w.waitingClass("fast", nil)
		stop := w.run()
		w.settle()
		require.NotContains(w, w.log.String(), "exists")
		objects := w.cluster.CSIStorageCapacities(namespace)
		list, err := objects.List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		require.Len(w, list.Items, 1)
		foreign := &list.Items[0]
		foreign.Labels = nil
		_, err = objects.Update(w.Context(), foreign, metav1.UpdateOptions{})
		require.NoError(w, err)
		time.Sleep(2 * time.Minute)
		w.settle()
		stop()
		require.Contains(w, w.log.String(), "already exists")
	})
}

// TestCapacityFailures: after a failure, and after a capacity that is none, the last one stays.
func TestCapacityFailures(t *testing.T) {
	inWorld(t, measuring, func(w *world) {
		w.config.Capacity, w.config.Provision.WithoutTopology = &sidecar.CapacityConfig{Namespace: namespace, ForImmediateBinding: true}, true
		w.createClass(nil, nil)
		w.run()
		w.settle()
		require.Equal(w, []string{"class map[] 1Ti unknown"}, w.capacities())
		w.driver.Inject(csitest.Fault{Method: csitest.GetCapacity, Code: codes.Internal, Times: 1})
		w.driver.Inject(csitest.Fault{Method: csitest.GetCapacity, Times: 1, Answer: func(answer proto.Message) {
			answer.(*csipb.GetCapacityResponse).AvailableCapacity = -1
		}})
		for n := range 3 {
			time.Sleep(time.Minute)
			w.settle()
			require.Len(w, w.texts(csitest.GetCapacity), n+2)
			require.Equal(w, []string{"class map[] 1Ti unknown"}, w.capacities())
		}
	})
}

// TestNodeStates: a change of a node that is no change of its labels causes no query, and the cache of nodes has
// neither their specifications nor their states.
func TestNodeStates(t *testing.T) {
	inWorld(t, measuring, func(w *world) {
		w.config.Capacity = &sidecar.CapacityConfig{Namespace: namespace, PollInterval: time.Hour}
		w.createNode("a", "north")
		w.waitingClass("fast", nil)
		w.run()
		w.settle()
		queries := len(w.texts(csitest.GetCapacity))
		node, err := w.cluster.Nodes().Get(w.Context(), "a", metav1.GetOptions{})
		require.NoError(w, err)
		node.Status.NodeInfo.KernelVersion = strings.Repeat("x", 100)
		node, err = w.cluster.Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.settle()
		require.Len(w, w.texts(csitest.GetCapacity), queries)
		node.Labels = map[string]string{"zone": "east", v1.LabelHostname: "a"}
		_, err = w.cluster.Nodes().Update(w.Context(), node, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.settle()
		require.Equal(w, []string{"fast map[zone:east] 1Ti unknown"}, w.capacities())
	})
}
