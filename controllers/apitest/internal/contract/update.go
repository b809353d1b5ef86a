package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var updateTests = map[string]func(*contract){
	"UpdateChangesVersion": func(c *contract) {
		created := c.createConfigMap("a")
		updated := c.change(created, "new")
		require.NotEqual(c, created.ResourceVersion, updated.ResourceVersion)
		require.Equal(c, created.UID, updated.UID)
		require.Equal(c, created.CreationTimestamp, updated.CreationTimestamp)
		require.Equal(c, "new", updated.Data["key"])
	},
	"UpdateThatChangesNothing": func(c *contract) {
		created := c.createConfigMap("a")
		require.Equal(c, created.ResourceVersion, update(c, c.configMaps(), created).ResourceVersion)
	},
	"UpdateOldVersionConflicts": func(c *contract) {
		created := c.createConfigMap("a")
		c.change(created, "new")
		_, err := c.configMaps().Update(c.ctx, created, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonConflict)
	},
	"UpdateWithoutVersion": func(c *contract) {
		created := c.createConfigMap("a")
		created.ResourceVersion = ""
		require.Equal(c, "new", c.change(created, "new").Data["key"])
	},
	"UpdateOtherUIDConflicts": func(c *contract) {
		created := c.createConfigMap("a")
		created.ResourceVersion, created.UID = "", "other"
		_, err := c.configMaps().Update(c.ctx, created, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonConflict)
	},
	"UpdateWithoutUID": func(c *contract) {
		created := c.createConfigMap("a")
		uid := created.UID
		created.UID = ""
		require.Equal(c, uid, c.change(created, "new").UID)
	},
	"UpdateMissing": func(c *contract) {
		_, err := c.configMaps().Update(c.ctx, c.newConfigMap("a"), metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
	},
	"UpdateAfterDeletionAndCreation": func(c *contract) {
		created := c.createConfigMap("a")
		c.remove("a")
		c.createConfigMap("a")
		_, err := c.configMaps().Update(c.ctx, created, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonConflict)
	},
	"UpdateIgnoresSystemMetadata": func(c *contract) {
		created := c.createConfigMap("a")
		object := created.DeepCopy()
		object.CreationTimestamp = metav1.Unix(1, 0)
		object.Generation = 9
		updated := c.change(object, "new")
		require.True(c, created.CreationTimestamp.Equal(&updated.CreationTimestamp))
		require.Zero(c, updated.Generation)
	},
	"UpdateCannotDelete": func(c *contract) {
		created := c.createConfigMap("a")
		created.DeletionTimestamp = pointer(metav1.Now())
		_, err := c.configMaps().Update(c.ctx, created, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"UpdateDryRun": func(c *contract) {
		created := c.createConfigMap("a")
		created.Data["key"] = "new"
		updated, err := c.configMaps().Update(c.ctx, created, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(c, err)
		require.Equal(c, "new", updated.Data["key"])
		read, err := c.configMaps().Get(c.ctx, "a", metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, "value", read.Data["key"])
		require.Equal(c, created.ResourceVersion, read.ResourceVersion)
	},
	"UpdateKeepsStatus": func(c *contract) {
		created := create(c, c.volumes(), c.newVolume("a"))
		created.Status.Phase, created.Spec.StorageClassName = v1.VolumeAvailable, "fast"
		updated := update(c, c.volumes(), created)
		require.Equal(c, v1.VolumePending, updated.Status.Phase)
		require.Equal(c, "fast", updated.Spec.StorageClassName)
	},
	"UpdateStatusKeepsSpec": func(c *contract) {
		created := create(c, c.volumes(), c.newVolume("a"))
		created.Status.Phase, created.Spec.StorageClassName = v1.VolumeAvailable, "fast"
		updated := updateStatus(c, c.volumes(), created)
		require.Equal(c, v1.VolumeAvailable, updated.Status.Phase)
		require.Zero(c, updated.Spec.StorageClassName)
	},
	"UpdateStatusChangesLabels": func(c *contract) {
		created := create(c, c.volumes(), c.newVolume("a"))
		created.Labels["l"], created.Annotations = "x", map[string]string{"a": "x"}
		updated := updateStatus(c, c.volumes(), created)
		require.Equal(c, "x", updated.Labels["l"])
		require.Equal(c, "x", updated.Annotations["a"])
	},
	"UpdateStatusOldVersionConflicts": func(c *contract) {
		created := create(c, c.volumes(), c.newVolume("a"))
		object := created.DeepCopy()
		object.Status.Phase = v1.VolumeAvailable
		updateStatus(c, c.volumes(), object)
		_, err := c.volumes().UpdateStatus(c.ctx, created, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonConflict)
	},
	"UpdateStatusMissing": func(c *contract) {
		_, err := c.volumes().UpdateStatus(c.ctx, c.newVolume("a"), metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
	},
}
