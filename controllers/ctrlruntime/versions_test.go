package ctrlruntime_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/ctrlruntime"
	v1 "k8s.io/api/core/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestVersions: a kind with several versions has the calls of any other, and the errors of its watches.
func TestVersions(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	c, err := client.NewWithWatch(serve(t, server.Connect("test")), client.Options{})
	require.NoError(t, err)
	classes := ctrlruntime.NewCluster(c).VolumeAttributesClasses()
	start, err := classes.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	class := &storagev1beta1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "csi.example.com", Parameters: map[string]string{"iops": "9"}}
	created, err := classes.Create(t.Context(), class, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Empty(t, class.ResourceVersion, "the caller keeps its object")
	require.Empty(t, created.Kind)
	created.Labels = map[string]string{"a": "b"}
	updated, err := classes.Update(t.Context(), created, metav1.UpdateOptions{})
	require.NoError(t, err)
	require.Equal(t, "b", updated.Labels["a"])
	patched, err := classes.Patch(t.Context(), "gold", types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"c"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"iops": "9"}, patched.Parameters)
	list, err := classes.List(t.Context(), metav1.ListOptions{LabelSelector: "a=c"})
	require.NoError(t, err)
	require.Len(t, list.Items, 1)
	require.Equal(t, "gold", list.Items[0].Name)
	events, err := classes.Watch(t.Context(), metav1.ListOptions{ResourceVersion: start.ResourceVersion})
	require.NoError(t, err)
	event := <-events.ResultChan()
	events.Stop()
	require.Equal(t, watch.Added, event.Type)
	require.IsType(t, class, event.Object)
	require.NoError(t, classes.Delete(t.Context(), "gold", metav1.DeleteOptions{}))
	_, err = classes.Get(t.Context(), "gold", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))

	server.Compact()
	events, err = classes.Watch(t.Context(), metav1.ListOptions{ResourceVersion: start.ResourceVersion})
	require.NoError(t, err)
	event = <-events.ResultChan()
	events.Stop()
	require.Equal(t, watch.Error, event.Type)
	require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)), "%v", event.Object)
}

// TestFakeClient: the fake client of controller-runtime is a Cluster, too.
func TestFakeClient(t *testing.T) {
	watching := make(chan struct{}, 100)
	cluster := ctrlruntime.NewCluster(interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
			events, err := c.Watch(ctx, list, options...)
			watching <- struct{}{}
			return events, err
		},
	}))
	_, err := cluster.Nodes().Get(t.Context(), "", metav1.GetOptions{})
	require.ErrorContains(t, err, "name may not be empty")
	node, err := cluster.Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
	require.Nil(t, node)
	_, err = cluster.Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "a=b=c"})
	require.True(t, apierrors.IsBadRequest(err), "%v", err)
	_, err = cluster.Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: "a"})
	require.True(t, apierrors.IsBadRequest(err), "%v", err)

	nodes := api.NewCache(cluster.Nodes(), api.CacheConfig{})
	classes := api.NewCache(cluster.VolumeAttributesClasses(), api.CacheConfig{})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- nodes.Run(ctx) }()
	go func() { ended <- classes.Run(ctx) }()
	require.NoError(t, nodes.WaitForSync(ctx))
	require.NoError(t, classes.WaitForSync(ctx))
	for range 2 { // the fake client has no history
		<-watching
	}
	_, err = cluster.Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = cluster.VolumeAttributesClasses().Create(ctx, &storagev1beta1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}, DriverName: "csi.example.com"}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return len(nodes.List()) == 1 && len(classes.List()) == 1 }, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, errors.Join(<-ended, <-ended))
}
