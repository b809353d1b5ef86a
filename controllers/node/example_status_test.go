package node_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The manager of the node reports that a volume cannot grow. The claim shows it, and the user can
// ask for less.
func ExampleClaimStatus() {
	ctx, cancel := context.WithCancel(context.Background())
	server := apitest.NewServer(apitest.Config{})
	pv := expandingVolume(ctx, server.Direct())

	source, err := node.NewSource(node.Config{Cluster: server.Connect("agent"), Node: "node-1"})
	if err != nil {
		fmt.Println(err)
	}
	announced := make(chan api.Event)
	status, err := node.NewClaimStatus(node.ClaimStatusConfig{Source: source, Events: func(e api.Event) { announced <- e }})
	if err != nil {
		fmt.Println(err)
	}
	ended := make(chan error)
	go func() { ended <- status.Run(ctx) }()

	status.Report(manager.Expansion{ // by the manager: manager.Config.Expansions is status.Report
		Spec: volume.NewSpecFromPersistentVolume(pv, false), NewSize: pv.Spec.Capacity[v1.ResourceStorage],
		Err: errors.Join(errors.New("the file system has its largest size"), volume.ErrInfeasible),
	})
	fmt.Println((<-announced).Reason)
	claim, _ := server.Direct().PersistentVolumeClaims("default").Get(ctx, "data", metav1.GetOptions{})
	fmt.Println(claim.Status.Capacity.Storage(), claim.Status.AllocatedResourceStatuses[v1.ResourceStorage], claim.Status.Conditions[0].Type)
	cancel()
	fmt.Println(<-ended)
	// Output:
	// VolumeResizeFailed
	// 1Gi NodeResizeInfeasible NodeResizeError
	// <nil>
}

// expandingVolume creates a claim of 1Gi and its volume, whose storage a controller has expanded.
func expandingVolume(ctx context.Context, cluster api.Cluster) *v1.PersistentVolume {
	data := claim("data", "disk")
	data.Namespace = "default"
	stored, err := cluster.PersistentVolumeClaims("default").Create(ctx, data, metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
	}
	stored.Status = data.Status
	stored.Status.AllocatedResources = storage("2Gi")
	stored.Status.AllocatedResourceStatuses = map[v1.ResourceName]v1.ClaimResourceStatus{v1.ResourceStorage: v1.PersistentVolumeClaimNodeResizePending}
	if _, err := cluster.PersistentVolumeClaims("default").UpdateStatus(ctx, stored, metav1.UpdateOptions{}); err != nil {
		fmt.Println(err)
	}
	pv := volumeOf(stored)
	pv.Spec.Capacity = storage("2Gi")
	return pv
}
