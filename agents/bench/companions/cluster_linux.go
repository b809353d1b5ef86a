package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/volumekit/volumekit/agents/internal/oldnode"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/kubeserver"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	namespace = v1.NamespaceDefault
	className = "bench"

	writers = 16 // of the objects
	// settling is the time after which the programs have no work left.
	settling = 2 * time.Second
)

// A cluster is a real API server with a driver, for the programs of one subject.
type cluster struct {
	options
	subject     programs
	server      *kubeserver.Server
	driver      *driver
	client      *kubernetes.Clientset
	api         api.Cluster
	attachments *api.Cache[*storagev1.VolumeAttachment]
	out         io.Writer
}

// onCluster calls work with a cluster of its own.
func onCluster(ctx context.Context, o options, subject programs, out io.Writer, work func(context.Context, *cluster) error) error {
	ctx, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "companions")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := kubeserver.Run(ctx, dir)
	if err != nil {
		return err
	}
	defer server.Stop()
	c := &cluster{options: o, subject: subject, server: server, driver: &driver{socket: filepath.Join(dir, "csi.sock")}, out: out}
	stop, err := c.driver.serve()
	if err != nil {
		return err
	}
	defer stop()
	c.client, err = kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}})
	if err != nil {
		return err
	}
	c.api = kubeclient.New(c.client)
	c.attachments = api.NewCache(c.api.VolumeAttachments(), api.CacheConfig{})
	watching, end := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.attachments.Run(watching) }()
	if err = c.attachments.WaitForSync(ctx); err == nil {
		err = c.createNodes(ctx)
	}
	if err == nil {
		err = work(ctx, c)
	}
	end()
	<-ended
	return err
}

// createNodes creates the nodes, the object of the driver and its class.
func (c *cluster) createNodes(ctx context.Context) error {
	isRequired, options := true, metav1.CreateOptions{}
	_, err := c.client.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: driverName}, Spec: storagev1.CSIDriverSpec{AttachRequired: &isRequired},
	}, options)
	_, err2 := c.client.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: className}, Provisioner: driverName,
	}, options)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	return each(c.nodes, func(i int) error {
		node, err := c.api.Nodes().Create(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: nodeName(i), Annotations: map[string]string{attach.ManagedAnnotation: "true"},
		}}, options)
		if err != nil {
			return err
		}
		node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		if _, err = c.api.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		_, err = c.api.CSINodes().Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: node.Name}, Spec: storagev1.CSINodeSpec{
			Drivers: []storagev1.CSINodeDriver{{Name: driverName, NodeID: node.Name}},
		}}, options)
		return errors.Join(err, c.server.Rewrite(ctx, oldnode.Key(node.Name), oldnode.Age))
	})
}

func nodeName(i int) string { return fmt.Sprint("node-", i) }

func volumeName(i int) string { return fmt.Sprint("volume-", i) }

// createVolumes creates volumes with claims that they are bound to.
func (c *cluster) createVolumes(ctx context.Context) error {
	return each(c.volumes, func(i int) error {
		claim, err := c.createClaim(ctx, volumeName(i), volumeName(i))
		if err != nil {
			return err
		}
		pv, err := c.api.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: claim.Name},
			Spec: v1.PersistentVolumeSpec{
				AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests, StorageClassName: className,
				PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource:        v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: claim.Name}},
				ClaimRef:                      &v1.ObjectReference{Namespace: namespace, Name: claim.Name, UID: claim.UID},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		pv.Status.Phase = v1.VolumeBound
		_, err = c.api.PersistentVolumes().UpdateStatus(ctx, pv, metav1.UpdateOptions{})
		claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests}
		_, err2 := c.api.PersistentVolumeClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
		return errors.Join(err, err2)
	})
}

// createClaim creates a claim of a volume; "": one for which the binder has requested a volume.
func (c *cluster) createClaim(ctx context.Context, name, volume string) (*v1.PersistentVolumeClaim, error) {
	class, annotations := className, map[string]string{}
	if volume == "" {
		annotations[provision.ProvisionerAnnotation] = driverName
	}
	return c.api.PersistentVolumeClaims(namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, StorageClassName: &class, VolumeName: volume,
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
}

// createPod creates the pod of a volume on a node.
func (c *cluster) createPod(ctx context.Context, i int) error {
	_, err := c.api.Pods(namespace).Create(ctx, &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: volumeName(i)},
		Spec: v1.PodSpec{
			NodeName:   nodeName(i % c.nodes),
			Containers: []v1.Container{{Name: "c", Image: "registry.example/app:1.2.3", VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: "/v"}}}},
			Volumes: []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: volumeName(i)}}}},
		},
	}, metav1.CreateOptions{})
	return err
}

// deletePod removes the pod of a volume at once.
func (c *cluster) deletePod(ctx context.Context, i int) error {
	now := int64(0)
	return c.api.Pods(namespace).Delete(ctx, volumeName(i), metav1.DeleteOptions{GracePeriodSeconds: &now})
}

// createAttachment creates the VolumeAttachment of a volume.
func (c *cluster) createAttachment(ctx context.Context, i int) error {
	volume := volumeName(i)
	_, err := c.api.VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: volume},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driverName, NodeName: nodeName(i % c.nodes), Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
		},
	}, metav1.CreateOptions{})
	return err
}

// deleteAttachment deletes the VolumeAttachment of a volume.
func (c *cluster) deleteAttachment(ctx context.Context, i int) error {
	return c.api.VolumeAttachments().Delete(ctx, volumeName(i), metav1.DeleteOptions{})
}

// awaitVolumes waits until all claims have a volume.
func (c *cluster) awaitVolumes(ctx context.Context) error {
	cache := api.NewCache(c.api.PersistentVolumes(), api.CacheConfig{})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = cache.Run(ctx) }()
	return c.await(ctx, "all volumes exist", func() int { return c.volumes - len(cache.List()) })
}

// awaitAttached waits until n volumes are attached.
func (c *cluster) awaitAttached(ctx context.Context, n int) error {
	return c.await(ctx, fmt.Sprintf("%d volumes are attached", n), func() int {
		missing := n
		for _, a := range c.attachments.List() {
			if a.Status.Attached {
				missing--
			}
		}
		return missing
	})
}

// awaitDetached waits until no VolumeAttachment is left.
func (c *cluster) awaitDetached(ctx context.Context) error {
	return c.await(ctx, "all volumes are detached", func() int { return len(c.attachments.List()) })
}

// await waits until nothing is missing.
func (c *cluster) await(ctx context.Context, what string, missing func() int) error {
	for {
		n := missing()
		if n == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %d are missing: %w", what, n, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// each calls f with the numbers below n, in several goroutines.
func each(n int, f func(i int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, writers)
	var all sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
