package expand_test

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An array is storage whose volumes grow by one call.
type array struct{}

func (array) Name(pv *v1.PersistentVolume) string {
	if pv.Spec.CSI == nil {
		return ""
	}
	return pv.Spec.CSI.Driver
}

func (array) Expand(_ context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	fmt.Println("from", req.OldSize.String(), "to", req.NewSize.String())
	return volume.ExpandResult{Size: req.NewSize}, nil
}

// A user requests more for a claim, and the controller makes its volume larger.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := apitest.NewServer(apitest.Config{}) // in a program: kubeclient.New(clientset)
	controller, err := expand.New(expand.Config{Cluster: server.Connect("expander"), Expander: array{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	users := server.Direct()
	claim, err := pairOfExample(ctx, users)
	if err != nil {
		fmt.Println(err)
		return
	}
	claims := users.PersistentVolumeClaims("default")
	watcher, err := claims.Watch(ctx, metav1.ListOptions{ResourceVersion: claim.ResourceVersion})
	if err != nil {
		fmt.Println(err)
		return
	}
	claim.Spec.Resources.Requests[v1.ResourceStorage] = resource.MustParse("2Gi")
	if _, err := claims.Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	for event := range watcher.ResultChan() {
		if capacity := event.Object.(*v1.PersistentVolumeClaim).Status.Capacity.Storage().String(); capacity != "1Gi" {
			fmt.Println("the claim has", capacity)
			break
		}
	}
	watcher.Stop()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// from 1Gi to 2Gi
	// the claim has 2Gi
	// <nil>
}

// pairOfExample creates a claim that is bound to a volume, and returns it.
func pairOfExample(ctx context.Context, cluster api.Cluster) (*v1.PersistentVolumeClaim, error) {
	return newPair(ctx, cluster, v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "disk"}})
}
