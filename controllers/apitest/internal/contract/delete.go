package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const finalizer = "example.com/finalizer"

// createFinalized creates a ConfigMap with a finalizer.
func (c *contract) createFinalized(name string) *v1.ConfigMap {
	object := c.newConfigMap(name)
	object.Finalizers = []string{finalizer}
	return create(c, c.configMaps(), object)
}

func (c *contract) get(name string) *v1.ConfigMap {
	c.Helper()
	read, err := c.configMaps().Get(c.ctx, name, metav1.GetOptions{})
	require.NoError(c, err)
	return read
}

// missing requires that a ConfigMap does not exist.
func (c *contract) missing(name string) {
	c.Helper()
	_, err := c.configMaps().Get(c.ctx, name, metav1.GetOptions{})
	c.refused(err, metav1.StatusReasonNotFound)
}

var deleteTests = map[string]func(*contract){
	"Delete": func(c *contract) {
		c.createConfigMap("a")
		c.remove("a")
		c.missing("a")
	},
	"DeleteMissing": func(c *contract) {
		c.refused(c.configMaps().Delete(c.ctx, "a", metav1.DeleteOptions{}), metav1.StatusReasonNotFound)
	},
	"DeleteOtherUIDConflicts": func(c *contract) {
		created := c.createConfigMap("a")
		c.refused(c.configMaps().Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}), metav1.StatusReasonConflict)
		require.NoError(c, c.configMaps().Delete(c.ctx, "a", metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(created.UID))}))
	},
	"DeleteOldVersionConflicts": func(c *contract) {
		created := c.createConfigMap("a")
		updated := c.change(created, "new")
		c.refused(c.configMaps().Delete(c.ctx, "a", *metav1.NewRVDeletionPrecondition(created.ResourceVersion)), metav1.StatusReasonConflict)
		require.NoError(c, c.configMaps().Delete(c.ctx, "a", *metav1.NewRVDeletionPrecondition(updated.ResourceVersion)))
	},
	"DeleteDryRun": func(c *contract) {
		c.createConfigMap("a")
		require.NoError(c, c.configMaps().Delete(c.ctx, "a", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}))
		require.Nil(c, c.get("a").DeletionTimestamp)
	},
	"FinalizerDelaysDeletion": func(c *contract) {
		created := c.createFinalized("a")
		c.remove("a")
		read := c.get("a")
		require.NotNil(c, read.DeletionTimestamp)
		require.Equal(c, pointer(int64(0)), read.DeletionGracePeriodSeconds)
		require.NotEqual(c, created.ResourceVersion, read.ResourceVersion)
		require.Equal(c, created.UID, read.UID)
		c.remove("a")
		require.Equal(c, read.ResourceVersion, c.get("a").ResourceVersion, "a second deletion changes nothing")
		read.Finalizers = nil
		last := update(c, c.configMaps(), read)
		require.Empty(c, last.Finalizers)
		require.Equal(c, read.ResourceVersion, last.ResourceVersion, "the object that the update ended has its last version")
		c.missing("a")
	},
	"FinalizerOfTwo": func(c *contract) {
		object := c.newConfigMap("a")
		object.Finalizers = []string{finalizer, finalizer + "-2"}
		create(c, c.configMaps(), object)
		c.remove("a")
		read := c.get("a")
		read.Finalizers = read.Finalizers[:1]
		require.Equal(c, []string{finalizer}, update(c, c.configMaps(), read).Finalizers)
		require.NotNil(c, c.get("a").DeletionTimestamp)
	},
	"FinalizerCannotBeAddedLate": func(c *contract) {
		c.createFinalized("a")
		c.remove("a")
		read := c.get("a")
		read.Finalizers = append(read.Finalizers, finalizer+"-2")
		_, err := c.configMaps().Update(c.ctx, read, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"DeletionCannotBeUndone": func(c *contract) {
		c.createFinalized("a")
		c.remove("a")
		read := c.get("a")
		deleted := read.DeletionTimestamp
		read.DeletionTimestamp, read.DeletionGracePeriodSeconds = nil, nil
		updated := c.change(read, "new")
		require.Equal(c, deleted.Unix(), updated.DeletionTimestamp.Unix())
		require.Equal(c, pointer(int64(0)), updated.DeletionGracePeriodSeconds)
	},
	"DeletionAllowsUpdates": func(c *contract) {
		c.createFinalized("a")
		c.remove("a")
		require.Equal(c, "new", c.change(c.get("a"), "new").Data["key"])
	},
	"FinalizerRemovedByMergePatch": func(c *contract) {
		c.createFinalized("a")
		c.remove("a")
		_, err := c.configMaps().Patch(c.ctx, "a", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
		require.NoError(c, err)
		c.missing("a")
	},
	"ForegroundDeletion": func(c *contract) {
		c.createConfigMap("a")
		require.NoError(c, c.configMaps().Delete(c.ctx, "a", metav1.DeleteOptions{PropagationPolicy: pointer(metav1.DeletePropagationForeground)}))
		read := c.get("a")
		require.Equal(c, []string{metav1.FinalizerDeleteDependents}, read.Finalizers)
		require.NotNil(c, read.DeletionTimestamp)
	},
	"OrphanDeletion": func(c *contract) {
		c.createConfigMap("a")
		require.NoError(c, c.configMaps().Delete(c.ctx, "a", metav1.DeleteOptions{PropagationPolicy: pointer(metav1.DeletePropagationOrphan)}))
		require.Equal(c, []string{metav1.FinalizerOrphanDependents}, c.get("a").Finalizers)
	},
}
