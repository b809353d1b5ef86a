// Recycle empties a volume whose claim is gone, in this process, and shows that no other file is deleted. It runs in a
// mount namespace of its own: no root is needed.
//
//	go run ./examples/recycle
//
// prints
//
//	pv-a has 3 entries, two of them links to a file outside
//	with a tmpfs inside: refused, 3 entries are left
//	recycled: 0 entries are left, and the file outside says "kept"
//
// recycler.NewPod has a pod do the work, as a cluster's recycler does.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func main() {
	dir, err := mounttest.Sandbox()
	if err == nil {
		err = run(context.Background(), dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run makes a volume, as a pod has left it, and recycles it.
func run(ctx context.Context, dir string) error {
	root, disks, outside := dir+"/root", dir+"/disks", dir+"/outside"
	at := disks + "/pv-a"
	err := errors.Join(
		os.Mkdir(root, 0o755),
		os.MkdirAll(at+"/files", 0o755),
		os.WriteFile(at+"/files/data", nil, 0o600),
		os.WriteFile(outside, []byte("kept"), 0o600),
		os.Link(outside, at+"/hard-link"),
		os.Symlink(outside, at+"/link"),
	)
	if err != nil {
		return err
	}
	fmt.Println("pv-a has", entries(at), "entries, two of them links to a file outside")

	mounter := mount.New(mount.Config{})
	defer mounter.Close()
	volumes, err := newRecycler(ctx, mounter, root, disks)
	if err != nil {
		return err
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-a"}}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: at}
	spec := volume.NewSpecFromPersistentVolume(pv, false)

	// Somebody has mounted another file system in the volume: its files are not the volume's.
	inside := at + "/files"
	if err := mounter.Mount(ctx, mount.Request{Source: "tmpfs", Target: inside, FSType: "tmpfs"}); err != nil {
		return err
	}
	refusal := volumes.Recycle(ctx, pv.Name, spec)
	if err := mounter.Unmount(ctx, inside); err != nil || !errors.Is(refusal, mount.ErrSubmounts) {
		return errors.Join(errors.New("expected mount.ErrSubmounts"), refusal, err)
	}
	fmt.Println("with a tmpfs inside: refused,", entries(at), "entries are left")

	if err := volumes.Recycle(ctx, pv.Name, spec); err != nil {
		return err
	}
	text, err := os.ReadFile(outside)
	fmt.Printf("recycled: %s entries are left, and the file outside says %q\n", entries(at), text)
	return err
}

// newRecycler returns the recycler of the local volumes below disks. It mounts them below root.
func newRecycler(ctx context.Context, mounter mount.Interface, root, disks string) (*recycler.Local, error) {
	host, err := volume.NewHost(ctx, root)
	if err != nil {
		return nil, err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, local.New(local.Config{Mounter: mounter, Roots: []string{disks}}))
	if err != nil {
		return nil, err
	}
	return recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: plugins.FindPluginBySpec})
}

// entries says how many entries a directory has.
func entries(dir string) string {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprint(len(names))
}
