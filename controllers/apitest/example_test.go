package apitest_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func newConfigMap(name string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// A test gives the server to the code under test and then counts its calls.
func Example() {
	ctx := context.Background()
	server := apitest.NewServer(apitest.Config{})
	cluster := server.Connect("controller")

	// The code under test.
	created, _ := cluster.ConfigMaps("default").Create(ctx, newConfigMap("a"), metav1.CreateOptions{})
	created.Data = map[string]string{"key": "value"}
	_, _ = cluster.ConfigMaps("default").Update(ctx, created, metav1.UpdateOptions{})
	_, err := cluster.ConfigMaps("default").Update(ctx, created, metav1.UpdateOptions{})

	fmt.Println("conflict:", apierrors.IsConflict(err))
	for _, call := range server.Calls(apitest.Call{Identity: "controller", Resource: "configmaps"}) {
		fmt.Println(call)
	}
	// Output:
	// conflict: true
	// create configmaps default/a
	// update configmaps default/a
	// update configmaps default/a
}

// A reconciler whose client is a clientset, or a client of controller-runtime, talks to the server by HTTP.
func ExampleCluster_Handler() {
	server := apitest.NewServer(apitest.Config{})
	web := httptest.NewServer(server.Connect("reconciler").Handler())
	defer web.Close()

	// The code under test.
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: web.URL, QPS: -1})
	if err != nil {
		panic(err) // an example has no test to fail
	}
	_, err = clientset.CoreV1().ConfigMaps("default").Get(context.Background(), "a", metav1.GetOptions{})

	fmt.Println(err)
	for _, call := range server.Calls(apitest.Call{Identity: "reconciler"}) {
		fmt.Println(call)
	}
	// Output:
	// configmaps "a" not found
	// get configmaps default/a
}

// A timeout after the write took effect: the controller does not know that the object exists.
func ExampleServer_Inject() {
	ctx := context.Background()
	server := apitest.NewServer(apitest.Config{})
	server.Inject(apitest.Fault{
		Call: apitest.Call{Verb: apitest.Create}, Times: 1,
		Failure: apitest.ServerTimeout, AfterEffect: true,
	})
	configMaps := server.Connect("controller").ConfigMaps("default")
	for range 2 {
		_, err := configMaps.Create(ctx, newConfigMap("a"), metav1.CreateOptions{})
		fmt.Println(apierrors.ReasonForError(err))
	}
	// Output:
	// ServerTimeout
	// AlreadyExists
}

// A process crashes at its second write. Its successor finds the state that it left.
func ExampleCluster_Crashed() {
	ctx := context.Background()
	server := apitest.NewServer(apitest.Config{})
	server.Inject(apitest.Fault{
		When: func(call apitest.Call) bool { return call.Verb == apitest.Create },
		Skip: 1, Times: 1, Crash: true,
	})
	cluster := server.Connect("controller")
	for _, name := range []string{"a", "b", "c"} {
		_, err := cluster.ConfigMaps("default").Create(ctx, newConfigMap(name), metav1.CreateOptions{})
		fmt.Println(name, err)
	}
	<-cluster.Crashed()
	list, _ := server.Connect("controller").ConfigMaps("default").List(ctx, metav1.ListOptions{})
	fmt.Println(len(list.Items), "object")
	// Output:
	// a <nil>
	// b create configmaps default/b: the process has crashed
	// c create configmaps default/c: the process has crashed
	// 1 object
}

// A stale cache: the server holds events back until the test releases them.
func ExampleServer_HoldEvents() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := apitest.NewServer(apitest.Config{})
	cache := api.NewCache(server.Connect("controller").ConfigMaps("default"), api.CacheConfig{})
	go func() { _ = cache.Run(ctx) }()
	_ = cache.WaitForSync(ctx)

	release := server.HoldEvents("controller")
	_, _ = server.Direct().ConfigMaps("default").Create(ctx, newConfigMap("a"), metav1.CreateOptions{})
	fmt.Println("held:", len(cache.List()))
	release()
	for len(cache.List()) == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("released:", len(cache.List()))
	// Output:
	// held: 0
	// released: 1
}
