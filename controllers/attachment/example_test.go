package attachment_test

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// An array is storage whose volumes are attached by one call.
type array struct{}

func (array) Name() string { return driver }

func (array) Attach(_ context.Context, req attachment.Request) (map[string]string, error) {
	fmt.Println("attach", req.Volume.Spec.CSI.VolumeHandle, "to", req.NodeID)
	return map[string]string{"device": "/dev/sda"}, nil
}

func (array) Detach(_ context.Context, req attachment.Request) error {
	fmt.Println("detach", req.Volume.Spec.CSI.VolumeHandle, "from", req.NodeID)
	return nil
}

// The attach/detach controller creates a VolumeAttachment, which the controller fulfils, and deletes it.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := apitest.NewServer(apitest.Config{}) // in a program: kubeclient.New(clientset)
	controller, err := attachment.New(attachment.Config{Cluster: server.Connect("attacher"), Attacher: array{}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- controller.Run(ctx) }()

	attachments := server.Direct().VolumeAttachments()
	watcher, err := requestAttachment(ctx, server.Direct())
	if err != nil {
		fmt.Println(err)
		return
	}
	for event := range watcher.ResultChan() {
		object := event.Object.(*storagev1.VolumeAttachment)
		if event.Type == watch.Deleted {
			fmt.Println("detached")
			break
		}
		if object.Status.Attached && object.DeletionTimestamp == nil {
			fmt.Println("attached as", object.Status.AttachmentMetadata["device"])
			if err := attachments.Delete(ctx, object.Name, metav1.DeleteOptions{}); err != nil {
				fmt.Println(err)
				return
			}
		}
	}
	watcher.Stop()
	cancel()
	fmt.Println(<-ended)
	// Output:
	// attach disk to id-node
	// attached as /dev/sda
	// detach disk from id-node
	// detached
	// <nil>
}

// requestAttachment creates a volume, a node and a VolumeAttachment, and watches VolumeAttachments.
func requestAttachment(ctx context.Context, cluster api.Cluster) (watch.Interface, error) {
	watcher, err := cluster.VolumeAttachments().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	if _, err := cluster.PersistentVolumes().Create(ctx, newVolume("pv", "disk"), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if _, err := cluster.CSINodes().Create(ctx, newNode("node", "id-node"), metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	_, err = cluster.VolumeAttachments().Create(ctx, newAttachment("a", "pv", "node"), metav1.CreateOptions{})
	return watcher, err
}
