package expand_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
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

// A plugin that is a volume.ExpandableVolumePlugin is the Expander of its volumes.
func ExampleFromPlugins() {
	ctx := context.Background()
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{MaxSize: 4 << 30}) // in a program: a plugin of real storage
	host, err := volume.NewHost(ctx, os.TempDir())                              // in a program: the directory of its own files
	if err != nil {
		fmt.Println(err)
		return
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, plugin)
	if err != nil {
		fmt.Println(err)
		return
	}
	expander := expand.FromPlugins(plugins) // for Config.Expander
	spec := plugin.NewSpec("disk", "/disks/one")
	fmt.Println(expander.Name(spec.PersistentVolume))
	for _, size := range []string{"2Gi", "8Gi"} {
		result, err := expander.Expand(ctx, volume.ExpandRequest{
			Spec: spec, OldSize: resource.MustParse("1Gi"), NewSize: resource.MustParse(size),
		})
		fmt.Println(result.Size.String(), result.NodeExpansionRequired, volume.KindOf(err), errors.Is(err, volume.ErrInfeasible))
	}
	// Output:
	// volumekit.io/fake
	// 2Gi true success false
	// 2Gi false final true
}
