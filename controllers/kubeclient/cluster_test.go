package kubeclient_test

import (
	"context"
	"fmt"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// The typed clients of client-go are Clients as they are.
var (
	_ api.Pods            = corev1.PodInterface(nil)
	_ api.ConfigMaps      = corev1.ConfigMapInterface(nil)
	_ api.ServiceAccounts = corev1.ServiceAccountInterface(nil)
)

// TestCluster: each method of the cluster returns the client of its own kind, and of the namespace.
func TestCluster(t *testing.T) {
	clientset := fake.NewClientset()
	cluster := reflect.ValueOf(kubeclient.New(clientset))
	require.Equal(t, 16, cluster.NumMethod())
	for i := range cluster.NumMethod() {
		name := cluster.Type().Method(i).Name
		var arguments []reflect.Value
		if cluster.Method(i).Type().NumIn() == 1 {
			arguments = []reflect.Value{reflect.ValueOf("ns")}
		}
		client := cluster.Method(i).Call(arguments)[0]
		clientset.ClearActions()
		client.MethodByName("Get").Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf("x"), reflect.ValueOf(metav1.GetOptions{})})
		require.Len(t, clientset.Actions(), 1, name)
		action := clientset.Actions()[0]
		require.Equal(t, resourceOf(name), action.GetResource().Resource)
		require.Equal(t, len(arguments) == 1, action.GetNamespace() == "ns", name)
	}
}

func resourceOf(method string) string {
	resource := []byte(method)
	for i := range resource {
		resource[i] |= 0x20 // lower case
	}
	return string(resource)
}

func TestCreateToken(t *testing.T) {
	clientset := fake.NewClientset()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{Audiences: []string{"a"}}}
	_, err := kubeclient.New(clientset).ServiceAccounts("ns").CreateToken(t.Context(), "account", request, metav1.CreateOptions{})
	t.Log(err) // the fake has no tokens
	require.Equal(t, "token", clientset.Actions()[0].GetSubresource())
}

// A controller on a shared informer factory of the program: its caches use the program's informers.
func ExampleNew() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	clientset := fake.NewClientset(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}})
	factory := informers.NewSharedInformerFactory(clientset, 0)

	cluster := kubeclient.New(clientset)
	cache := api.CacheOf[*v1.PersistentVolume](factory.Core().V1().PersistentVolumes().Informer(), nil)
	volumes := api.NewObjects(api.ClusterScoped(cluster.PersistentVolumes()), cache)

	factory.Start(ctx.Done())
	if err := cache.WaitForSync(ctx); err != nil {
		fmt.Println(err)
	}
	pv, err := volumes.Get(ctx, api.Key{Name: "pv-1"})
	fmt.Println(pv.Name, err)
	// Output: pv-1 <nil>
}
