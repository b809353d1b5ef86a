package contract

import (
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var createTests = map[string]func(*contract){
	"CreateSetsMetadata": func(c *contract) {
		before := time.Now().Add(-2 * time.Second)
		created := c.createConfigMap("a")
		require.NotZero(c, created.UID)
		require.NotZero(c, created.ResourceVersion)
		require.Zero(c, created.Generation)
		require.True(c, created.CreationTimestamp.After(before))
		require.Zero(c, created.CreationTimestamp.Nanosecond())
		require.Equal(c, c.namespace, created.Namespace)
		require.Zero(c, created.Kind+created.APIVersion)
		read, err := c.configMaps().Get(c.ctx, "a", metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, created, read)
	},
	"CreateIgnoresSystemMetadata": func(c *contract) {
		object := c.newConfigMap("a")
		now := metav1.Now()
		object.UID, object.CreationTimestamp = "mine", metav1.NewTime(time.Unix(1, 0))
		object.DeletionTimestamp, object.DeletionGracePeriodSeconds = &now, pointer(int64(7))
		created := create(c, c.configMaps(), object)
		require.NotEqual(c, object.UID, created.UID)
		require.False(c, created.CreationTimestamp.Equal(&object.CreationTimestamp))
		require.Nil(c, created.DeletionTimestamp)
		require.Nil(c, created.DeletionGracePeriodSeconds)
	},
	"CreateTwiceFails": func(c *contract) {
		c.createConfigMap("a")
		_, err := c.configMaps().Create(c.ctx, c.newConfigMap("a"), metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonAlreadyExists)
	},
	"CreateWithVersionFails": func(c *contract) {
		object := c.newConfigMap("a")
		object.ResourceVersion = "1"
		_, err := c.configMaps().Create(c.ctx, object, metav1.CreateOptions{})
		require.Error(c, err)
		require.ErrorContains(c, err, "resourceVersion should not be set")
	},
	"CreateWithoutNameFails": func(c *contract) {
		_, err := c.configMaps().Create(c.ctx, c.newConfigMap(""), metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"CreateWithInvalidNameFails": func(c *contract) {
		for _, name := range []string{"A", "a_b", "-a", strings.Repeat("a", 254)} {
			_, err := c.configMaps().Create(c.ctx, c.newConfigMap(name), metav1.CreateOptions{})
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"CreateWithInvalidLabelFails": func(c *contract) {
		object := c.newConfigMap("a")
		object.Labels["-"] = "x"
		_, err := c.configMaps().Create(c.ctx, object, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"CreateInOtherNamespaceFails": func(c *contract) {
		object := c.newConfigMap("a")
		object.Namespace = "default"
		_, err := c.configMaps().Create(c.ctx, object, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonBadRequest)
	},
	"CreateInMissingNamespaceFails": func(c *contract) {
		object := c.newConfigMap("a")
		object.Namespace = c.namespace + "-none"
		_, err := c.Cluster.ConfigMaps(object.Namespace).Create(c.ctx, object, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
	},
	"CreateInEndingNamespaceFails": func(c *contract) {
		require.NoError(c, c.Cluster.Namespaces().Delete(c.ctx, c.namespace, metav1.DeleteOptions{}))
		namespace, err := c.Cluster.Namespaces().Get(c.ctx, c.namespace, metav1.GetOptions{})
		require.NoError(c, err)
		require.NotNil(c, namespace.DeletionTimestamp)
		require.Equal(c, v1.NamespaceTerminating, namespace.Status.Phase)
		_, err = c.configMaps().Create(c.ctx, c.newConfigMap("a"), metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonForbidden)
	},
	"GenerateName": func(c *contract) {
		names := map[string]bool{}
		for range 20 {
			object := c.newConfigMap("")
			object.GenerateName = "gen-"
			created := create(c, c.configMaps(), object)
			require.Regexp(c, "^gen-[a-z0-9]{5}$", created.Name)
			names[created.Name] = true
		}
		require.Len(c, names, 20)
	},
	"GenerateNameIsShortened": func(c *contract) {
		object := c.newConfigMap("")
		object.GenerateName = strings.Repeat("x", 70)
		require.Len(c, create(c, c.configMaps(), object).Name, 63)
	},
	"CreateDryRun": func(c *contract) {
		created, err := c.configMaps().Create(c.ctx, c.newConfigMap("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		require.NoError(c, err)
		require.NotZero(c, created.UID)
		_, err = c.configMaps().Get(c.ctx, "a", metav1.GetOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
		c.createConfigMap("a")
		_, err = c.configMaps().Create(c.ctx, c.newConfigMap("a"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		c.refused(err, metav1.StatusReasonAlreadyExists)
		_, err = c.configMaps().Create(c.ctx, c.newConfigMap("b"), metav1.CreateOptions{DryRun: []string{"Some"}})
		c.refused(err, metav1.StatusReasonInvalid)
	},
	"GetMissing": func(c *contract) {
		_, err := c.configMaps().Get(c.ctx, "a", metav1.GetOptions{})
		c.refused(err, metav1.StatusReasonNotFound)
	},
	"ObjectsAreCopies": func(c *contract) {
		created := c.createConfigMap("a")
		created.Data["key"] = "changed"
		read, err := c.configMaps().Get(c.ctx, "a", metav1.GetOptions{})
		require.NoError(c, err)
		require.Equal(c, "value", read.Data["key"])
	},
	"OwnerReferences": func(c *contract) {
		owner := c.createConfigMap("owner")
		object := c.newConfigMap("a")
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID,
			Controller: pointer(true), BlockOwnerDeletion: pointer(true)}}
		require.Equal(c, object.OwnerReferences, create(c, c.configMaps(), object).OwnerReferences)
		object = c.newConfigMap("b")
		object.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name}}
		_, err := c.configMaps().Create(c.ctx, object, metav1.CreateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
}
