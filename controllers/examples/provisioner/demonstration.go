package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/examples/internal/minicluster"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/demonstration"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	nodeName  = "node-1"
	className = "directories"
	claimName = "data"
	podName   = "web"
)

// A miniature is a cluster with one node, as a user changes it.
type miniature struct {
	cluster api.Cluster
	kernel  demonstration.Kernel
	volumes *manager.Manager // of the node
	dir     string
	out     io.Writer
}

// demonstrate runs all parts of the cluster in a directory, and takes the steps of the user.
func demonstrate(ctx context.Context, out io.Writer, k demonstration.Kernel, dir string) error {
	root, disks := filepath.Join(dir, "node"), filepath.Join(dir, "disks")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(disks, 0o755)); err != nil {
		return err
	}
	server := apitest.NewServer(apitest.Config{})
	node, err := minicluster.NewNode(ctx, minicluster.NodeConfig{
		Cluster: server.Connect("node"), Name: nodeName, Mounter: k, Root: root,
		Plugins: []volume.VolumePlugin{local.New(local.Config{Mounter: k, Roots: []string{disks}})},
	})
	if err != nil {
		return err
	}
	m := &miniature{cluster: server.Direct(), kernel: k, volumes: node.Volumes, dir: dir, out: out}

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // the parts outlive ctx, to clean up
	ended := make(chan error, 1)
	go func() {
		ended <- cli.RunAll(working, node.Run,
			func(ctx context.Context) error { return minicluster.RunBinder(ctx, server.Connect("binder")) },
			func(ctx context.Context) error {
				return directories{disks, nodeName}.run(ctx, server.Connect("provisioner"), m.printEvent)
			})
		cancel()
	}()
	err = errors.Join(m.run(ctx), m.cleanUp(working))
	stop()
	return errors.Join(<-ended, err)
}

// run takes the steps of the user.
func (m *miniature) run(ctx context.Context) error {
	claim, err := m.createClaim(ctx)
	if err != nil {
		return err
	}
	if claim, err = m.waitUntilBound(ctx, claim); err != nil {
		return err
	}
	m.printf("claim %s is bound to %s", claim.Name, claim.Spec.VolumeName)
	if err := m.usePod(ctx, claim); err != nil {
		return err
	}
	if err := m.cluster.PersistentVolumeClaims(claim.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	m.printf("claim %s is deleted", claim.Name)
	if err := m.waitUntilDeleted(ctx, claim.Spec.VolumeName); err != nil {
		return err
	}
	left, err := os.ReadDir(filepath.Join(m.dir, "disks"))
	m.printf("%s is deleted, directories left: %d", claim.Spec.VolumeName, len(left))
	return err
}

// createClaim creates a class, and a claim for a volume of the class.
func (m *miniature) createClaim(ctx context.Context) (*v1.PersistentVolumeClaim, error) {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: className}, Provisioner: provisioner}
	if _, err := m.cluster.StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	return m.cluster.PersistentVolumeClaims(v1.NamespaceDefault).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: claimName},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &class.Name,
			AccessModes:      []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:        v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, metav1.CreateOptions{})
}

// usePod runs a pod on the node that writes a file to the volume of a claim.
func (m *miniature) usePod(ctx context.Context, claim *v1.PersistentVolumeClaim) error {
	pod, err := m.cluster.Pods(claim.Namespace).Create(ctx, minicluster.NewPod(podName, nodeName, claim), metav1.CreateOptions{})
	if err != nil {
		return err
	}
	if err := m.volumes.WaitForAttachAndMount(ctx, pod); err != nil {
		return err
	}
	path := m.volumes.GetMountedVolumesForPod(pod.UID)["data"].Path
	m.printf("pod %s has the volume at %s", pod.Name, strings.TrimPrefix(path, m.dir))
	if err := m.writeFile(path, claim.Spec.VolumeName); err != nil {
		return err
	}
	if err := m.deletePod(ctx); err != nil {
		return err
	}
	if err := m.volumes.WaitForUnmount(ctx, pod); err != nil {
		return err
	}
	m.printf("pod %s is deleted, the volume is unmounted", pod.Name)
	return nil
}

// writeFile writes a file in the mounted directory of a volume, and reads it in the directory that was
// provisioned.
func (m *miniature) writeFile(mounted, volume string) error {
	name, err := m.kernel.RealPath(filepath.Join(mounted, "greeting"))
	if err == nil {
		err = os.WriteFile(name, []byte("hello\n"), 0o600)
	}
	if err != nil {
		return err
	}
	provisioned := filepath.Join(m.dir, "disks", volume, "greeting")
	text, err := os.ReadFile(provisioned)
	m.printf("%s: %s", strings.TrimPrefix(provisioned, m.dir), text)
	return err
}

func (m *miniature) deletePod(ctx context.Context) error {
	return m.cluster.Pods(v1.NamespaceDefault).Delete(ctx, podName, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// cleanUp unmounts the volume of a demonstration that has failed.
func (m *miniature) cleanUp(ctx context.Context) error {
	err := m.deletePod(ctx)
	if apierrors.IsNotFound(err) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return errors.Join(err, m.volumes.WaitForAllPodsUnmount(ctx))
}

// waitUntilBound returns the claim once it is bound.
func (m *miniature) waitUntilBound(ctx context.Context, claim *v1.PersistentVolumeClaim) (*v1.PersistentVolumeClaim, error) {
	watcher, err := m.cluster.PersistentVolumeClaims(claim.Namespace).Watch(ctx, metav1.ListOptions{ResourceVersion: claim.ResourceVersion})
	if err != nil {
		return nil, err
	}
	object, err := waitFor(ctx, watcher, func(e watch.Event) bool {
		claim, ok := e.Object.(*v1.PersistentVolumeClaim)
		return ok && claim.Status.Phase == v1.ClaimBound
	})
	if err != nil {
		return nil, fmt.Errorf("claim %s: wait for a volume: %w", claim.Name, err)
	}
	return object.(*v1.PersistentVolumeClaim), nil
}

// waitUntilDeleted waits for the end of a volume.
func (m *miniature) waitUntilDeleted(ctx context.Context, volume string) error {
	watcher, err := m.cluster.PersistentVolumes().Watch(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	if _, err := m.cluster.PersistentVolumes().Get(ctx, volume, metav1.GetOptions{}); apierrors.IsNotFound(err) {
		watcher.Stop()
		return nil
	}
	_, err = waitFor(ctx, watcher, func(e watch.Event) bool { return e.Type == watch.Deleted })
	return err
}

// waitFor returns the object of the first event for which done returns true, and stops the watch.
func waitFor(ctx context.Context, watcher watch.Interface, done func(watch.Event) bool) (runtime.Object, error) {
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		if done(event) {
			return event.Object, nil
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, errors.New("the watch has ended")
}

// printEvent prints an event as a user reads it from the API server.
func (m *miniature) printEvent(e api.Event) { m.printf("event %s: %s", e.Reason, e.Message) }

// printf prints a line. A failed write ends the context of the demonstration, see cli.NewOutput.
func (m *miniature) printf(format string, args ...any) {
	_, _ = fmt.Fprintln(m.out, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
