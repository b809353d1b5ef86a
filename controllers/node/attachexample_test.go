package node_test

import (
	"context"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The node reports a volume as in use and waits; a controller attaches the volume. A program sets
// the Attacher in manager.Config, with ReportFirst, and passes its manager to Run: here a fake
// reports the volumes in use.
func ExampleAttacher() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := apitest.NewServer(apitest.Config{})
	nodes := server.Direct().Nodes()
	_, _ = nodes.Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})

	attacher, err := node.NewAttacher(node.AttacherConfig{Cluster: server.Connect("agent"), Node: "node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	used := &usedVolumes{names: names{"example.com/disk/one"}, complete: true}
	go func() { _ = attacher.Run(ctx, used) }()
	go func() { // the controller
		for {
			n, err := nodes.Get(ctx, "node-1", metav1.GetOptions{})
			if err != nil {
				return
			}
			for _, name := range n.Status.VolumesInUse {
				n.Status.VolumesAttached = []v1.AttachedVolume{{Name: name, DevicePath: "/dev/vdb"}}
				if _, err := nodes.UpdateStatus(ctx, n, metav1.UpdateOptions{}); err == nil {
					return
				} // a conflict with the attacher
			}
			time.Sleep(time.Millisecond)
		}
	}()
	path, err := attacher.Attach(ctx, manager.Attachment{
		Plugin: attachmentOf("").Plugin, Volume: "example.com/disk/one", Node: "node-1",
	})
	fmt.Println(path, err)
	// Output: /dev/vdb <nil>
}

// A plugin of CSI volumes waits until the driver has attached a volume, and passes the metadata to
// the driver as the publish context.
func ExampleVolumeAttachments() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := apitest.NewServer(apitest.Config{})
	volume := "pv-1"
	objects := server.Direct().VolumeAttachments()
	object, _ := objects.Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: node.VolumeAttachmentName("driver.example.com", "handle-1", "node-1")},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: "driver.example.com", NodeName: "node-1",
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
	}, metav1.CreateOptions{})
	object.Status = storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "/dev/vdb"}}
	_, _ = objects.UpdateStatus(ctx, object, metav1.UpdateOptions{})

	attachments, err := node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: server.Connect("agent"), Node: "node-1"})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = attachments.Run(ctx) }()
	var reader node.AttachmentReader = attachments
	metadata, err := reader.WaitForAttachment(ctx, "driver.example.com", "handle-1")
	fmt.Println(metadata, err)
	reader.ReleaseAttachment("driver.example.com", "handle-1")
	// Output: map[device:/dev/vdb] <nil>
}
