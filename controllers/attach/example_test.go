package attach_test

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attach"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A pod comes to a node. The controller creates a VolumeAttachment, a driver attaches, and the node may use
// the volume.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := apitest.NewServer(apitest.Config{}) // in a program: kubeclient.New(clientset)
	controller, err := attach.New(attach.Config{Cluster: server.Connect("attacher")})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	users := server.Direct()
	if err := createPair(ctx, users, diskSpec{name: "disk"}); err != nil {
		fmt.Println(err)
		return
	}
	node, err := users.Nodes().Create(ctx, newNode("node", v1.ConditionTrue), metav1.CreateOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := users.Pods(namespace).Create(ctx, newPod("pod", "node", "disk"), metav1.CreateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	attachments, err := users.VolumeAttachments().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	va := (<-attachments.ResultChan()).Object.(*storagev1.VolumeAttachment)
	fmt.Println(va.Spec.Attacher, "attaches", *va.Spec.Source.PersistentVolumeName, "to", va.Spec.NodeName)
	va = va.DeepCopy()
	va.Status.Attached = true
	if _, err := users.VolumeAttachments().UpdateStatus(ctx, va, metav1.UpdateOptions{}); err != nil {
		fmt.Println(err)
		return
	}
	nodes, err := users.Nodes().Watch(ctx, metav1.ListOptions{ResourceVersion: node.ResourceVersion})
	if err != nil {
		fmt.Println(err)
		return
	}
	node = (<-nodes.ResultChan()).Object.(*v1.Node)
	fmt.Println("the node may use", node.Status.VolumesAttached[0].Name)
	attachments.Stop()
	nodes.Stop()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// driver.example.com attaches disk to node
	// the node may use kubernetes.io/csi/driver.example.com^disk
	// <nil>
}
