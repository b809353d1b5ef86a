package contract

import (
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (c *contract) newAttachment(name string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: c.clusterMeta(name), Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "example.com", NodeName: "node", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: pointer("pv")}}}
}

var storageTests = map[string]func(*contract){
	"StorageClassDefaults": func(c *contract) {
		class := create(c, c.Cluster.StorageClasses(), c.newClass("a"))
		require.Equal(c, pointer(v1.PersistentVolumeReclaimDelete), class.ReclaimPolicy)
		require.Equal(c, pointer(storagev1.VolumeBindingImmediate), class.VolumeBindingMode)
		require.Nil(c, class.AllowVolumeExpansion)
	},
	"StorageClassIsImmutable": func(c *contract) {
		created := create(c, c.Cluster.StorageClasses(), c.newClass("a"))
		for name, change := range map[string]func(*storagev1.StorageClass){
			"provisioner": func(class *storagev1.StorageClass) { class.Provisioner = "example.com/other" },
			"parameters":  func(class *storagev1.StorageClass) { class.Parameters = map[string]string{"a": "b"} },
			"policy":      func(class *storagev1.StorageClass) { class.ReclaimPolicy = pointer(v1.PersistentVolumeReclaimRetain) },
			"binding mode": func(class *storagev1.StorageClass) {
				class.VolumeBindingMode = pointer(storagev1.VolumeBindingWaitForFirstConsumer)
			},
		} {
			class := created.DeepCopy()
			change(class)
			_, err := c.Cluster.StorageClasses().Update(c.ctx, class, metav1.UpdateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
		created.AllowVolumeExpansion, created.MountOptions = pointer(true), []string{"noatime"}
		update(c, c.Cluster.StorageClasses(), created)
	},
	"StorageClassNeedsProvisioner": func(c *contract) {
		class := c.newClass("a")
		class.Provisioner = ""
		_, err := c.Cluster.StorageClasses().Create(c.ctx, class, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"AttachmentStatus": func(c *contract) {
		object := c.newAttachment("a")
		object.Status.Attached = true
		attachment := create(c, c.Cluster.VolumeAttachments(), object)
		require.False(c, attachment.Status.Attached)
		attachment.Status.Attached, attachment.Status.AttachmentMetadata = true, map[string]string{"device": "/dev/x"}
		attachment.Finalizers = []string{finalizer}
		attachment = updateStatus(c, c.Cluster.VolumeAttachments(), attachment)
		require.True(c, attachment.Status.Attached)
		require.Empty(c, attachment.Finalizers, "an update of the status changes no metadata")
		attachment.Status.Attached, attachment.Finalizers = false, []string{finalizer}
		attachment = update(c, c.Cluster.VolumeAttachments(), attachment)
		require.True(c, attachment.Status.Attached)
		require.Equal(c, []string{finalizer}, attachment.Finalizers)
	},
	"AttachmentSpecIsImmutable": func(c *contract) {
		attachment := create(c, c.Cluster.VolumeAttachments(), c.newAttachment("a"))
		attachment.Spec.NodeName = "other"
		_, err := c.Cluster.VolumeAttachments().Update(c.ctx, attachment, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"AttachmentUpdateNeedsVersion": func(c *contract) {
		attachment := create(c, c.Cluster.VolumeAttachments(), c.newAttachment("a"))
		attachment.ResourceVersion, attachment.Labels = "", map[string]string{"a": "b"}
		_, err := c.Cluster.VolumeAttachments().Update(c.ctx, attachment, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"InvalidAttachments": func(c *contract) {
		for name, breaks := range map[string]func(*storagev1.VolumeAttachment){
			"no attacher": func(a *storagev1.VolumeAttachment) { a.Spec.Attacher = "" },
			"no node":     func(a *storagev1.VolumeAttachment) { a.Spec.NodeName = "" },
			"no source":   func(a *storagev1.VolumeAttachment) { a.Spec.Source.PersistentVolumeName = nil },
		} {
			attachment := c.newAttachment("a")
			breaks(attachment)
			_, err := c.Cluster.VolumeAttachments().Create(c.ctx, attachment, metav1.CreateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"AttributesClasses": func(c *contract) {
		classes := c.Cluster.VolumeAttributesClasses()
		newClass := func(name string) *storagev1beta1.VolumeAttributesClass {
			return &storagev1beta1.VolumeAttributesClass{ObjectMeta: c.clusterMeta(name), DriverName: "example.com", Parameters: map[string]string{"iops": "9"}}
		}
		created := create(c, classes, newClass("a"))
		read, err := classes.Get(c.ctx, created.Name, metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, created, read)
		_, err = classes.Get(c.ctx, c.namespace+"-missing", metav1.GetOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
		require.False(c, apierrors.IsUnexpectedServerError(err), "the kind is served")
		options := metav1.ListOptions{LabelSelector: ownerLabel + "=" + c.namespace}
		list, err := classes.List(c.ctx, options)
		require.NoError(c, err)
		require.Len(c, list.Items, 1)
		options.ResourceVersion = list.ResourceVersion
		w, err := classes.Watch(c.ctx, options)
		require.NoError(c, err)
		c.Cleanup(w.Stop)
		create(c, classes, newClass("b"))
		require.Equal(c, "ADDED", string(c.next(w).Type))
		created.Labels["changed"] = "true"
		created = update(c, classes, created)
		created.Parameters = map[string]string{"iops": "1"}
		_, err = classes.Update(c.ctx, created, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
		require.NoError(c, classes.Delete(c.ctx, created.Name, metav1.DeleteOptions{}))
	},
	"CSIDriverDefaults": func(c *contract) {
		driver := create(c, c.Cluster.CSIDrivers(), &storagev1.CSIDriver{ObjectMeta: c.clusterMeta("a")})
		require.Equal(c, pointer(true), driver.Spec.AttachRequired)
		require.Equal(c, pointer(false), driver.Spec.PodInfoOnMount)
		require.Equal(c, pointer(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy), driver.Spec.FSGroupPolicy)
		require.Equal(c, []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}, driver.Spec.VolumeLifecycleModes)
		require.Equal(c, pointer(false), driver.Spec.RequiresRepublish)
		driver.Spec.AttachRequired = pointer(false)
		_, err := c.Cluster.CSIDrivers().Update(c.ctx, driver, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"CSINodeDriversAreImmutable": func(c *contract) {
		node := create(c, c.Cluster.CSINodes(), &storagev1.CSINode{ObjectMeta: c.clusterMeta("a"), Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: "example.com", NodeID: "1"}}}})
		changed := node.DeepCopy()
		changed.Spec.Drivers[0].NodeID = "2"
		_, err := c.Cluster.CSINodes().Update(c.ctx, changed, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
		node.Spec.Drivers = append(node.Spec.Drivers, storagev1.CSINodeDriver{Name: "other.example.com", NodeID: "1"})
		node = update(c, c.Cluster.CSINodes(), node)
		node.Spec.Drivers = node.Spec.Drivers[1:]
		node = update(c, c.Cluster.CSINodes(), node)
		node.Spec.Drivers = append(node.Spec.Drivers, changed.Spec.Drivers[0])
		node = update(c, c.Cluster.CSINodes(), node)
		require.Len(c, node.Spec.Drivers, 2, "an entry is changed by a removal and an addition")
		node.Spec.Drivers = nil
		update(c, c.Cluster.CSINodes(), node)
	},
	"CSINodeDriversAreValid": func(c *contract) {
		node := create(c, c.Cluster.CSINodes(), &storagev1.CSINode{ObjectMeta: c.clusterMeta("a")})
		valid := storagev1.CSINodeDriver{Name: "Example.com", NodeID: strings.Repeat("n", 192),
			TopologyKeys: []string{"example.com/zone", "rack"}, Allocatable: &storagev1.VolumeNodeResources{Count: pointer(int32(0))}}
		for name, breaks := range map[string]func(*storagev1.CSINodeDriver){
			"no name":            func(d *storagev1.CSINodeDriver) { d.Name = "" },
			"no domain":          func(d *storagev1.CSINodeDriver) { d.Name = "example_com" },
			"a long name":        func(d *storagev1.CSINodeDriver) { d.Name = strings.Repeat("n", 64) },
			"no node ID":         func(d *storagev1.CSINodeDriver) { d.NodeID = "" },
			"a long node ID":     func(d *storagev1.CSINodeDriver) { d.NodeID = strings.Repeat("n", 257) },
			"a negative count":   func(d *storagev1.CSINodeDriver) { d.Allocatable.Count = pointer(int32(-1)) },
			"an invalid key":     func(d *storagev1.CSINodeDriver) { d.TopologyKeys[0] = "a b" },
			"an empty key":       func(d *storagev1.CSINodeDriver) { d.TopologyKeys[0] = "" },
			"a key that repeats": func(d *storagev1.CSINodeDriver) { d.TopologyKeys[0] = "rack" },
		} {
			driver := valid.DeepCopy()
			breaks(driver)
			changed := node.DeepCopy()
			changed.Spec.Drivers = []storagev1.CSINodeDriver{*driver}
			_, err := c.Cluster.CSINodes().Update(c.ctx, changed, metav1.UpdateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
		node.Spec.Drivers = []storagev1.CSINodeDriver{valid}
		update(c, c.Cluster.CSINodes(), node)
	},
	"NodePatchOfLabels": func(c *contract) {
		object := &v1.Node{ObjectMeta: c.clusterMeta("a")}
		object.Labels, object.Annotations = map[string]string{"a": "1"}, map[string]string{"b": "1", "c": "1"}
		node := create(c, c.Cluster.Nodes(), object)
		patch := []byte(`{"metadata":{"resourceVersion":"` + node.ResourceVersion + `","labels":{"zone":"z1"},"annotations":{"b":"2","c":null}}}`)
		patched, err := c.Cluster.Nodes().Patch(c.ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		require.NoError(c, err)
		require.Equal(c, "1", patched.Labels["a"])
		require.Equal(c, "z1", patched.Labels["zone"])
		require.Equal(c, "2", patched.Annotations["b"])
		require.Equal(c, "", patched.Annotations["c"])
		_, err = c.Cluster.Nodes().Patch(c.ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		c.refused(err, metav1.StatusReasonConflict)
	},
	"StorageCapacity": func(c *contract) {
		capacities := c.Cluster.CSIStorageCapacities(c.namespace)
		capacity := create(c, capacities, &storagev1.CSIStorageCapacity{ObjectMeta: c.meta("a"), StorageClassName: "fast", Capacity: pointer(resource.MustParse("1Gi"))})
		capacity.Capacity = pointer(resource.MustParse("2Gi"))
		capacity = update(c, capacities, capacity)
		capacity.StorageClassName = "slow"
		_, err := capacities.Update(c.ctx, capacity, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"NodeStatus": func(c *contract) {
		node := create(c, c.Cluster.Nodes(), &v1.Node{ObjectMeta: c.clusterMeta("a"),
			Status: v1.NodeStatus{VolumesInUse: []v1.UniqueVolumeName{"v"}}})
		require.Equal(c, []v1.UniqueVolumeName{"v"}, node.Status.VolumesInUse, "a new node has a status")
		node.Status.VolumesAttached = []v1.AttachedVolume{{Name: "v", DevicePath: "/dev/x"}}
		node.Spec.Unschedulable = true
		node = updateStatus(c, c.Cluster.Nodes(), node)
		require.Len(c, node.Status.VolumesAttached, 1)
		require.False(c, node.Spec.Unschedulable)
		node.Spec.Unschedulable, node.Status.VolumesAttached = true, nil
		node = update(c, c.Cluster.Nodes(), node)
		require.True(c, node.Spec.Unschedulable)
		require.Len(c, node.Status.VolumesAttached, 1)
	},
	"NodePatchOfVolumesInUse": func(c *contract) {
		node := create(c, c.Cluster.Nodes(), &v1.Node{ObjectMeta: c.clusterMeta("a"), Status: v1.NodeStatus{
			Conditions:      []v1.NodeCondition{{Type: "A", Status: v1.ConditionTrue}},
			VolumesAttached: []v1.AttachedVolume{{Name: "v", DevicePath: "/dev/x"}}}})
		patch := func(version, names string) (*v1.Node, error) {
			return c.Cluster.Nodes().Patch(c.ctx, node.Name, types.MergePatchType,
				[]byte(`{"metadata":{"resourceVersion":"`+version+`"},"status":{"volumesInUse":`+names+`}}`), metav1.PatchOptions{}, "status")
		}
		patched, err := patch(node.ResourceVersion, `["v","w"]`)
		require.NoError(c, err)
		require.Equal(c, []v1.UniqueVolumeName{"v", "w"}, patched.Status.VolumesInUse)
		require.Equal(c, node.Status.VolumesAttached, patched.Status.VolumesAttached)
		require.Equal(c, node.Status.Conditions, patched.Status.Conditions)
		_, err = patch(node.ResourceVersion, `["x"]`)
		c.refused(err, metav1.StatusReasonConflict)
		same, err := patch(patched.ResourceVersion, `["v","w"]`)
		require.NoError(c, err)
		require.Equal(c, patched.ResourceVersion, same.ResourceVersion)
		patched, err = patch(patched.ResourceVersion, `[]`)
		require.NoError(c, err)
		require.Empty(c, patched.Status.VolumesInUse)
		require.Equal(c, node.Status.VolumesAttached, patched.Status.VolumesAttached)
	},
	"AttachmentErrors": func(c *contract) {
		attachment := create(c, c.Cluster.VolumeAttachments(), c.newAttachment("a"))
		at := metav1.NewTime(time.Unix(1_700_000_000, 0))
		attachment.Status.AttachError = &storagev1.VolumeError{Time: at, Message: "no room"}
		attachment.Status.DetachError = &storagev1.VolumeError{Time: at, Message: "in use"}
		attachment = updateStatus(c, c.Cluster.VolumeAttachments(), attachment)
		require.Equal(c, "no room", attachment.Status.AttachError.Message)
		require.Equal(c, "in use", attachment.Status.DetachError.Message)
		require.True(c, attachment.Status.AttachError.Time.Time.Equal(at.Time))
	},
	"AttachmentStatusLimits": func(c *contract) {
		attachment := create(c, c.Cluster.VolumeAttachments(), c.newAttachment("a"))
		const message, metadata = 1024, 256 << 10
		for _, extra := range []int{0, 1} {
			for name, change := range map[string]func(*storagev1.VolumeAttachmentStatus){
				"attachError": func(s *storagev1.VolumeAttachmentStatus) {
					s.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", message+extra)}
				},
				"detachError": func(s *storagev1.VolumeAttachmentStatus) {
					s.DetachError = &storagev1.VolumeError{Message: strings.Repeat("x", message+extra)}
				},
				"metadata": func(s *storagev1.VolumeAttachmentStatus) {
					s.AttachmentMetadata = map[string]string{"k": strings.Repeat("x", metadata-1+extra)}
				},
			} {
				changed := attachment.DeepCopy()
				change(&changed.Status)
				stored, err := c.Cluster.VolumeAttachments().UpdateStatus(c.ctx, changed, metav1.UpdateOptions{})
				if extra > 0 {
					c.refused(err, metav1.StatusReasonInvalid)
					continue
				}
				require.NoError(c, err, name)
				attachment = stored
			}
		}
	},
}
