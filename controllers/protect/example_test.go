package protect_test

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A controller creates the claim of a pod's ephemeral volume, and lets a claim in deletion go that no pod
// uses.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := apitest.NewServer(apitest.Config{}) // in a program: kubeclient.New(clientset)
	controller, err := protect.New(protect.Config{Cluster: server.Connect("protector")})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	users := server.Direct()
	watcher, err := users.PersistentVolumeClaims("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := users.Pods("default").Create(ctx, podOfExample(), metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	claim := (<-watcher.ResultChan()).Object.(*v1.PersistentVolumeClaim)
	fmt.Println(claim.Name, claim.OwnerReferences[0].Kind, claim.OwnerReferences[0].Name)
	fmt.Println(deleteBoth(ctx, users, claim))
	for event := range watcher.ResultChan() {
		fmt.Println(event.Type)
		if event.Type == "DELETED" {
			break
		}
	}
	watcher.Stop()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// web-data Pod web
	// <nil>
	// MODIFIED
	// DELETED
	// <nil>
}

// podOfExample returns a pod with an ephemeral volume.
func podOfExample() *v1.Pod {
	return withEphemeral(newPod("web"), "data")
}

// deleteBoth deletes the pod and its claim, as the garbage collector does.
func deleteBoth(ctx context.Context, cluster api.Cluster, claim *v1.PersistentVolumeClaim) error {
	if err := cluster.Pods("default").Delete(ctx, "web", metav1.DeleteOptions{}); err != nil {
		return err
	}
	return cluster.PersistentVolumeClaims("default").Delete(ctx, claim.Name, metav1.DeleteOptions{})
}
