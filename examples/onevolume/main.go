// Onevolume mounts one volume for a pod by hand, and unmounts it again. It runs in a mount namespace of its own: no
// root is needed.
//
//	go run ./examples/onevolume
//
// prints
//
//	mounted at /pods/8d3c/volumes/kubernetes.io~local-volume/data
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	dir, err := mounttest.Sandbox() // a node agent runs as root, without
	if err == nil {
		err = run(context.Background(), dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run mounts the directory of a disk as a local volume.
func run(ctx context.Context, dir string) error {
	root, disks := filepath.Join(dir, "root"), filepath.Join(dir, "disks")
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data"}}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: filepath.Join(disks, "ssd1")}
	if err := errors.Join(os.Mkdir(root, 0o755), os.MkdirAll(pv.Spec.Local.Path, 0o755)); err != nil {
		return err
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "8d3c"}}
	mounter := mount.New(mount.Config{})
	defer mounter.Close()
	return MountVolume(ctx, Node{Mounter: mounter, Root: root, Disks: disks}, pv, pod)
}

// A Node has the local volumes below Disks. Root must exist: volumes appear below it in the kubelet's layout.
type Node struct {
	Mounter     mount.Interface
	Root, Disks string
}

// MountVolume mounts a local volume for a pod, and unmounts it again.
func MountVolume(ctx context.Context, node Node, pv *v1.PersistentVolume, pod *v1.Pod) error {
	host, err := volume.NewHost(ctx, node.Root)
	if err != nil {
		return err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: node.Mounter, Roots: []string{node.Disks}}))
	if err != nil {
		return err
	}
	spec := volume.NewSpecFromPersistentVolume(pv, true) // true: read-only
	plugin, err := plugins.FindPluginBySpec(spec)
	if err != nil {
		return err
	}
	mounting, err := plugin.NewMounter(spec, pod)
	if err != nil {
		return err
	}
	if err := mounting.SetUp(ctx, volume.MounterArgs{}); err != nil {
		return err
	}
	fmt.Println("mounted at", strings.TrimPrefix(mounting.GetPath(), host.Root()))

	unmounting, err := plugin.NewUnmounter(spec.Name(), pod.UID)
	if err != nil {
		return err
	}
	return unmounting.TearDown(ctx)
}
