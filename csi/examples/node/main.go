// Node shows a volume of a CSI driver in a pod, without a cluster. Both ends are real, and talk over Unix sockets. They run
// in a mount namespace of their own: no root is needed. go run ./csi/examples/node prints
//
//	driver local.csi.example.com is registered
//	pod web has the volume at /tmp/m1/node/pods/8d3c/volumes/kubernetes.io~csi/pvc-1/mount
//	pod web is gone, unmounted: true
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const name, nodeName = "local.csi.example.com", "node-1"

func main() {
	dir, err := mounttest.Sandbox() // a node runs as root, without
	if err == nil {
		ctx, stop := context.WithTimeout(context.Background(), 30*time.Second)
		defer stop()
		err = run(ctx, dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// serve serves the driver, whose volumes are directories, and registers it in the directory registry. Stop gets errors.
func serve(ctx context.Context, stop context.CancelCauseFunc, dir, registry string, mounter mount.Interface) error {
	host, err := volume.NewHost(ctx, dir+"/driver", volume.WithTargetDirs(dir+"/node"), volume.WithNodeName(nodeName))
	if err != nil {
		return err
	}
	listener, err := driver.Listen(ctx, dir+"/driver/csi.sock")
	if err != nil {
		return err
	}
	directories := local.New(local.Config{Mounter: mounter, Roots: []string{dir + "/disks"}}) // local.NewProvisioning makes some
	config := driver.Config{Name: name, Version: "0.1.0", NodeID: nodeName, Host: host, Plugin: directories}
	go func() { stop(driver.Serve(ctx, listener, config)) }()
	register := registration.ServerConfig{Dir: registry, Endpoint: dir + "/driver/csi.sock", Driver: name, Registered: func() { fmt.Println("driver", name, "is registered") }}
	go func() { stop(registration.Serve(ctx, register)) }()
	return nil
}

// run takes the steps of a cluster for one volume and one pod.
func run(ctx context.Context, dir string) error {
	registry, mounter := dir+"/registry", mount.New(mount.Config{})
	defer mounter.Close()
	err := errors.Join(os.Mkdir(registry, 0o755), os.Mkdir(dir+"/driver", 0o755), os.MkdirAll(dir+"/disks/ssd", 0o755), os.Mkdir(dir+"/node", 0o755))
	if err != nil {
		return err
	}
	host, err := volume.NewHost(ctx, dir+"/node", volume.WithNodeName(nodeName))
	if err != nil {
		return err
	}
	drivers, err := registration.New(registration.Config{Dir: registry})
	if err != nil {
		return err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, csi.New(csi.Config{Mounter: mounter, Drivers: drivers}))
	if err != nil {
		return err
	}
	pods := manager.NewMemorySource()
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: pods, Claims: pods})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	go func() { stop(drivers.Run(ctx)) }()
	go func() { stop(volumes.Run(ctx)) }()
	if err := serve(ctx, stop, dir, registry, mounter); err != nil {
		return err
	}
	pod, err := bind(pods, dir+"/disks/ssd")
	if err != nil {
		return err
	}
	if err := volumes.WaitForAttachAndMount(ctx, pod); err != nil {
		return err
	}
	fmt.Println("pod web has the volume at", volumes.GetMountedVolumesForPod(pod.UID)["data"].Path)
	pods.RemovePod(pod.UID)
	err = volumes.WaitForUnmount(ctx, pod)
	fmt.Println("pod web is gone, unmounted:", err == nil)
	return err
}

// bind returns a pod with a claim that is bound to the driver's volume for the directory.
func bind(source *manager.MemorySource, disk string) (*v1.Pod, error) {
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim-1"}}
	claim.Spec.VolumeName, claim.Status.Phase = "pvc-1", v1.ClaimBound
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: "ssd", VolumeAttributes: map[string]string{
		driver.VersionKey: "1", driver.SourceKey: fmt.Sprintf(`{"local":{"path":%q}}`, disk),
	}}
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "8d3c"}}
	pod.Spec.Containers = []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: "/data"}}}}
	data := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: data}}
	return pod, errors.Join(source.SetVolume(pv), source.SetClaim(claim), source.SetPod(pod))
}
