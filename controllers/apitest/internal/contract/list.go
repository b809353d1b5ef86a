package contract

import (
	"fmt"

	"github.com/volumekit/volumekit/internal/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list returns the names of the ConfigMaps in the order of the list, and the metadata of the list.
func (c *contract) list(options metav1.ListOptions) ([]string, metav1.ListMeta) {
	c.Helper()
	list, err := c.configMaps().List(c.ctx, options)
	require.NoError(c, err)
	names := []string{}
	for _, item := range list.Items {
		names = append(names, item.Name)
	}
	return names, list.ListMeta
}

func (c *contract) listRefused(options metav1.ListOptions, reason metav1.StatusReason) {
	c.Helper()
	_, err := c.configMaps().List(c.ctx, options)
	c.refused(err, reason)
}

var listTests = map[string]func(*contract){
	"ListIsSorted": func(c *contract) {
		for _, name := range []string{"b", "a", "a-b", "c", "a.b"} {
			c.createConfigMap(name)
		}
		names, meta := c.list(metav1.ListOptions{})
		require.Equal(c, []string{"a", "a-b", "a.b", "b", "c"}, names)
		require.NotZero(c, meta.ResourceVersion)
		require.Zero(c, meta.Continue)
	},
	"ListOfNone": func(c *contract) {
		names, meta := c.list(metav1.ListOptions{})
		require.Empty(c, names)
		require.NotZero(c, meta.ResourceVersion)
	},
	"ListAllNamespaces": func(c *contract) {
		c.createConfigMap("a")
		list, err := c.Cluster.ConfigMaps("").List(c.ctx, metav1.ListOptions{LabelSelector: ownerLabel + "=" + c.namespace})
		require.NoError(c, err)
		require.Len(c, list.Items, 1)
		require.Equal(c, c.namespace, list.Items[0].Namespace)
	},
	"LabelSelectors": func(c *contract) {
		for name, labels := range map[string]map[string]string{"a": {"x": "1"}, "b": {"x": "2"}, "c": {}} {
			object := c.newConfigMap(name)
			object.Labels = labels
			create(c, c.configMaps(), object)
		}
		for selector, want := range map[string][]string{
			"x": {"a", "b"}, "!x": {"c"}, "x=1": {"a"}, "x==1": {"a"}, "x!=1": {"b", "c"},
			"x in (1,2)": {"a", "b"}, "x notin (1)": {"b", "c"}, "x,x!=1": {"b"}, "": {"a", "b", "c"},
		} {
			names, _ := c.list(metav1.ListOptions{LabelSelector: selector})
			require.Equal(c, want, names, selector)
		}
		c.listRefused(metav1.ListOptions{LabelSelector: "x in"}, metav1.StatusReasonBadRequest)
	},
	"FieldSelectors": func(c *contract) {
		c.createConfigMap("a")
		c.createConfigMap("b")
		for selector, want := range map[string][]string{
			"metadata.name=a": {"a"}, "metadata.name!=a": {"b"}, "metadata.name=c": {},
			"metadata.namespace=" + c.namespace: {"a", "b"}, "metadata.namespace=other": {},
			"metadata.name=b,metadata.namespace=" + c.namespace: {"b"},
		} {
			names, _ := c.list(metav1.ListOptions{FieldSelector: selector})
			require.Equal(c, want, names, selector)
		}
	},
	"UnknownFieldSelector": func(c *contract) {
		c.listRefused(metav1.ListOptions{FieldSelector: "data.key=value"}, metav1.StatusReasonBadRequest)
		c.listRefused(metav1.ListOptions{FieldSelector: "metadata.uid=1"}, metav1.StatusReasonBadRequest)
		_, err := c.configMaps().Watch(c.ctx, metav1.ListOptions{FieldSelector: "data.key=value"})
		c.refused(err, metav1.StatusReasonBadRequest)
	},
	"FieldsOfPods": func(c *contract) {
		pod := c.newPod("a")
		pod.Spec.NodeName = c.namespace + "-node"
		create(c, c.pods(), pod)
		create(c, c.pods(), c.newPod("b"))
		for selector, want := range map[string]int{
			"spec.nodeName=" + pod.Spec.NodeName: 1, "spec.nodeName!=" + pod.Spec.NodeName: 1, "spec.nodeName=": 1,
			"status.phase=Pending": 2, "status.phase!=Pending": 0, "spec.restartPolicy=Always": 2,
			"spec.schedulerName=default-scheduler": 2, "spec.serviceAccountName=": 2, "status.podIP=": 2,
		} {
			list, err := c.pods().List(c.ctx, metav1.ListOptions{FieldSelector: selector})
			require.NoError(c, err, selector)
			require.Len(c, list.Items, want, selector)
		}
	},
	"FieldsOfOtherKinds": func(c *contract) {
		create(c, c.Cluster.Secrets(c.namespace), &v1.Secret{ObjectMeta: c.meta("a")})
		secrets, err := c.Cluster.Secrets(c.namespace).List(c.ctx, metav1.ListOptions{FieldSelector: "type=Opaque"})
		require.NoError(c, err)
		require.Len(c, secrets.Items, 1)
		namespaces, err := c.Cluster.Namespaces().List(c.ctx, metav1.ListOptions{FieldSelector: "status.phase=Active,metadata.name=" + c.namespace})
		require.NoError(c, err)
		require.Len(c, namespaces.Items, 1)
		_, err = c.volumes().List(c.ctx, metav1.ListOptions{FieldSelector: "status.phase=Bound"})
		c.refused(err, metav1.StatusReasonBadRequest)
		_, err = c.Cluster.Nodes().List(c.ctx, metav1.ListOptions{FieldSelector: "spec.unschedulable=false"})
		require.NoError(c, err)
	},
	"Pages": func(c *contract) {
		for i := range 5 {
			c.createConfigMap(fmt.Sprintf("c%d", i))
		}
		first, meta := c.list(metav1.ListOptions{Limit: 2})
		require.Equal(c, []string{"c0", "c1"}, first)
		require.NotZero(c, meta.Continue)
		require.Equal(c, pointer(int64(3)), meta.RemainingItemCount)
		// Later pages show the state of the first one.
		c.remove("c2")
		c.createConfigMap("c1b")
		second, next := c.list(metav1.ListOptions{Limit: 2, Continue: meta.Continue})
		require.Equal(c, []string{"c2", "c3"}, second)
		require.Equal(c, meta.ResourceVersion, next.ResourceVersion)
		last, end := c.list(metav1.ListOptions{Limit: 2, Continue: next.Continue})
		require.Equal(c, []string{"c4"}, last)
		require.Zero(c, end.Continue)
		require.Nil(c, end.RemainingItemCount)
	},
	"PagesWithSelector": func(c *contract) {
		for i := range 3 {
			c.createConfigMap(fmt.Sprintf("c%d", i))
		}
		names, meta := c.list(metav1.ListOptions{Limit: 1, LabelSelector: ownerLabel})
		require.Equal(c, []string{"c0"}, names)
		require.Nil(c, meta.RemainingItemCount)
		names, _ = c.list(metav1.ListOptions{Continue: meta.Continue, LabelSelector: ownerLabel})
		require.Equal(c, []string{"c1", "c2"}, names)
	},
	"InvalidContinueToken": func(c *contract) {
		c.listRefused(metav1.ListOptions{Limit: 1, Continue: "nonsense"}, metav1.StatusReasonBadRequest)
	},
	"ListExactVersion": func(c *contract) {
		created := c.createConfigMap("a")
		c.createConfigMap("b")
		c.remove("a")
		options := metav1.ListOptions{ResourceVersion: created.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}
		names, meta := c.list(options)
		require.Equal(c, []string{"a"}, names)
		require.Equal(c, created.ResourceVersion, meta.ResourceVersion)
	},
	"ListNotOlderThan": func(c *contract) {
		created := c.createConfigMap("a")
		names, _ := c.list(metav1.ListOptions{ResourceVersion: created.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan})
		require.Equal(c, []string{"a"}, names)
		names, _ = c.list(metav1.ListOptions{ResourceVersion: created.ResourceVersion})
		require.Equal(c, []string{"a"}, names)
	},
	"ListFutureVersion": func(c *contract) {
		created := c.createConfigMap("a")
		c.listRefused(metav1.ListOptions{ResourceVersion: created.ResourceVersion + "000"}, metav1.StatusReasonTimeout)
	},
	"InvalidListOptions": func(c *contract) {
		for _, options := range []metav1.ListOptions{
			{ResourceVersionMatch: metav1.ResourceVersionMatchExact},
			{ResourceVersionMatch: metav1.ResourceVersionMatchExact, ResourceVersion: "0"},
			{ResourceVersionMatch: "Some", ResourceVersion: "1"},
			{SendInitialEvents: pointer(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, ResourceVersion: "1"},
		} {
			c.listRefused(options, metav1.StatusReasonInvalid)
		}
	},
	"ListIsReadYourWrites": func(c *contract) {
		for i := range 10 {
			c.createConfigMap(fmt.Sprintf("c%d", i))
			names, _ := c.list(metav1.ListOptions{})
			require.Len(c, names, i+1)
		}
	},
	"ExpiredList": func(c *contract) {
		if c.Compact == nil {
			c.Skip("the server cannot compact")
		}
		created := c.createConfigMap("a")
		c.createConfigMap("b")
		_, meta := c.list(metav1.ListOptions{Limit: 1})
		c.createConfigMap("c")
		c.Compact()
		c.listRefused(metav1.ListOptions{ResourceVersion: created.ResourceVersion, ResourceVersionMatch: metav1.ResourceVersionMatchExact}, metav1.StatusReasonExpired)
		c.listRefused(metav1.ListOptions{Limit: 1, Continue: meta.Continue}, metav1.StatusReasonExpired)
		names, _ := c.list(metav1.ListOptions{})
		require.Equal(c, []string{"a", "b", "c"}, names)
	},
}
