package contract

import (
	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func (c *contract) patch(patchType types.PatchType, text string) (*v1.ConfigMap, error) {
	return c.configMaps().Patch(c.ctx, "a", patchType, []byte(text), metav1.PatchOptions{})
}

var patchTests = map[string]func(*contract){
	"MergePatch": func(c *contract) {
		created := c.createConfigMap("a")
		patched, err := c.patch(types.MergePatchType, `{"data":{"key":null,"other":"x"}}`)
		require.NoError(c, err)
		require.Equal(c, map[string]string{"other": "x"}, patched.Data)
		require.NotEqual(c, created.ResourceVersion, patched.ResourceVersion)
	},
	"EmptyPatchChangesNothing": func(c *contract) {
		created := c.createConfigMap("a")
		patched, err := c.patch(types.MergePatchType, `{}`)
		require.NoError(c, err)
		require.Equal(c, created.ResourceVersion, patched.ResourceVersion)
	},
	"PatchOldVersionConflicts": func(c *contract) {
		created := c.createConfigMap("a")
		c.change(created, "new")
		_, err := c.patch(types.MergePatchType, `{"metadata":{"resourceVersion":"`+created.ResourceVersion+`"},"data":{"key":"x"}}`)
		c.refused(err, metav1.StatusReasonConflict)
	},
	"PatchOfUIDFails": func(c *contract) {
		c.createConfigMap("a")
		_, err := c.patch(types.MergePatchType, `{"metadata":{"uid":"other"},"data":{"key":"x"}}`)
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"PatchMissing": func(c *contract) {
		_, err := c.patch(types.MergePatchType, `{"data":{"key":"x"}}`)
		c.refused(err, metav1.StatusReasonNotFound)
	},
	"PatchInvalidText": func(c *contract) {
		c.createConfigMap("a")
		for _, patchType := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType} {
			_, err := c.patch(patchType, `{`)
			c.refused(err, metav1.StatusReasonBadRequest)
		}
	},
	"StrategicMergePatchMergesLists": func(c *contract) {
		node := create(c, c.Cluster.Nodes(), &v1.Node{ObjectMeta: c.clusterMeta("a"),
			Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: "A", Status: v1.ConditionTrue}, {Type: "B", Status: v1.ConditionTrue}}}})
		patched, err := c.Cluster.Nodes().Patch(c.ctx, node.Name, types.StrategicMergePatchType,
			[]byte(`{"status":{"conditions":[{"type":"B","status":"False"}]}}`), metav1.PatchOptions{}, "status")
		require.NoError(c, err)
		conditions := map[v1.NodeConditionType]v1.ConditionStatus{}
		for _, condition := range patched.Status.Conditions {
			conditions[condition.Type] = condition.Status
		}
		require.Equal(c, map[v1.NodeConditionType]v1.ConditionStatus{"A": v1.ConditionTrue, "B": v1.ConditionFalse}, conditions)
	},
	"StrategicMergePatchDeletesFromLists": func(c *contract) {
		object := c.newConfigMap("a")
		object.Finalizers = []string{finalizer, finalizer + "-2"}
		create(c, c.configMaps(), object)
		patched, err := c.patch(types.StrategicMergePatchType, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+finalizer+`"]}}`)
		require.NoError(c, err)
		require.Equal(c, []string{finalizer + "-2"}, patched.Finalizers)
	},
	"PatchKeepsStatus": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		patched, err := c.volumes().Patch(c.ctx, volume.Name, types.MergePatchType,
			[]byte(`{"spec":{"storageClassName":"fast"},"status":{"phase":"Available"}}`), metav1.PatchOptions{})
		require.NoError(c, err)
		require.Equal(c, v1.VolumePending, patched.Status.Phase)
		require.Equal(c, "fast", patched.Spec.StorageClassName)
	},
	"PatchStatusKeepsSpec": func(c *contract) {
		volume := create(c, c.volumes(), c.newVolume("a"))
		patched, err := c.volumes().Patch(c.ctx, volume.Name, types.MergePatchType,
			[]byte(`{"spec":{"storageClassName":"fast"},"status":{"phase":"Available"}}`), metav1.PatchOptions{}, "status")
		require.NoError(c, err)
		require.Equal(c, v1.VolumeAvailable, patched.Status.Phase)
		require.Zero(c, patched.Spec.StorageClassName)
	},
	"PatchStatusWithoutSubresource": func(c *contract) {
		c.createConfigMap("a")
		_, err := c.configMaps().Patch(c.ctx, "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}, "status")
		c.refused(err, metav1.StatusReasonNotFound)
	},
	"JSONPatch": func(c *contract) {
		c.createConfigMap("a")
		patched, err := c.patch(types.JSONPatchType, `[{"op":"test","path":"/data/key","value":"value"},
			{"op":"replace","path":"/data/key","value":"new"},{"op":"add","path":"/data/other","value":"x"},
			{"op":"copy","from":"/data/other","path":"/data/copy"},{"op":"move","from":"/data/other","path":"/data/moved"}]`)
		require.NoError(c, err)
		require.Equal(c, map[string]string{"key": "new", "copy": "x", "moved": "x"}, patched.Data)
	},
	"JSONPatchRemovesFromList": func(c *contract) {
		object := c.newConfigMap("a")
		object.Finalizers = []string{finalizer, finalizer + "-2"}
		create(c, c.configMaps(), object)
		patched, err := c.patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/finalizers/0","value":"`+finalizer+`"},{"op":"remove","path":"/metadata/finalizers/0"}]`)
		require.NoError(c, err)
		require.Equal(c, []string{finalizer + "-2"}, patched.Finalizers)
	},
	"JSONPatchFailedTest": func(c *contract) {
		c.createConfigMap("a")
		_, err := c.patch(types.JSONPatchType, `[{"op":"replace","path":"/data/key","value":"new"},{"op":"test","path":"/data/key","value":"value"}]`)
		c.refused(err, metav1.StatusReasonInvalid)
		require.Equal(c, "value", c.get("a").Data["key"])
	},
	"JSONPatchMissingPath": func(c *contract) {
		c.createConfigMap("a")
		_, err := c.patch(types.JSONPatchType, `[{"op":"remove","path":"/data/none"}]`)
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"PatchDryRun": func(c *contract) {
		created := c.createConfigMap("a")
		patched, err := c.configMaps().Patch(c.ctx, "a", types.MergePatchType, []byte(`{"data":{"key":"new"}}`), metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(c, err)
		require.Equal(c, "new", patched.Data["key"])
		require.Equal(c, created.ResourceVersion, c.get("a").ResourceVersion)
	},
}
