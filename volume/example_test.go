package volume_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

func ExampleHost() {
	root, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(root)

	host, err := volume.NewHost(context.Background(), root, volume.WithNodeName("node-1"))
	if err != nil {
		fmt.Println(err)
		return
	}
	dir, err := host.PodVolumeDir("5c0e-77", "kubernetes.io/nfs", "shared")
	rel, _ := filepath.Rel(host.Root(), dir)
	fmt.Println(filepath.ToSlash(rel), err)

	_, err = host.PodVolumeDir("5c0e-77", "kubernetes.io/nfs", "../../etc")
	fmt.Println(err)
	// Output:
	// pods/5c0e-77/volumes/kubernetes.io~nfs/shared <nil>
	// volumeName: Invalid value: "../../etc": must not contain "/" or NUL
}

// The main use: find the plugin of a volume, bring the volume up for a pod, and
// take it down.
func Example() {
	root, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(root)
	host, _ := volume.NewHost(context.Background(), root)
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	mgr, err := volume.NewVolumePluginMgr(context.Background(), host, plugin)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	spec := plugin.NewSpec("data", root)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "5c0e-77"}}

	found, err := mgr.FindPluginBySpec(spec)
	fmt.Println(found.GetPluginName(), err)
	mounter, err := found.NewMounter(spec, pod)
	fmt.Println("new mounter:", err)
	fmt.Println("set up:", mounter.SetUp(ctx, volume.MounterArgs{ReadOnly: true}))

	unmounter, err := found.NewUnmounter(spec.Name(), pod.UID)
	fmt.Println("new unmounter:", err)
	fmt.Println("tear down:", unmounter.TearDown(ctx))
	_, err = os.Lstat(mounter.GetPath())
	fmt.Println("nothing is left:", errors.Is(err, os.ErrNotExist))
	// Output:
	// volumekit.io/fake <nil>
	// new mounter: <nil>
	// set up: <nil>
	// new unmounter: <nil>
	// tear down: <nil>
	// nothing is left: true
}

func ExampleFindBySpec() {
	root, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(root)
	host, _ := volume.NewHost(context.Background(), root)
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	mgr, _ := volume.NewVolumePluginMgr(context.Background(), host, plugin)

	spec := plugin.NewSpec("data", root)
	persistent, ok, err := volume.FindBySpec[volume.PersistentVolumePlugin](mgr, spec)
	fmt.Println(persistent.GetAccessModes()[0], ok, err)

	unknown := volume.NewSpecFromVolume(&v1.Volume{
		Name:         "web",
		VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "a.example"}},
	})
	_, _, err = volume.FindBySpec[volume.PersistentVolumePlugin](mgr, unknown)
	fmt.Println(err)
	fmt.Println(errors.Is(err, volume.ErrNoPluginMatched))
	// Output:
	// ReadWriteOnce true <nil>
	// volume "web" of kind nfs: no volume plugin matched
	// true
}

func ExampleSpec_IsReadOnly() {
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "music"}}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: "a.example", Path: "/music"}
	fmt.Println(volume.NewSpecFromPersistentVolume(pv, false).IsReadOnly())

	pv.Spec.MountOptions = []string{"hard", "ro"}
	fmt.Println(volume.NewSpecFromPersistentVolume(pv, false).IsReadOnly())
	// Output:
	// false
	// true
}

func ExampleEscapeQualifiedName() {
	escaped, err := volume.EscapeQualifiedName("kubernetes.io/nfs")
	fmt.Println(escaped, err)
	name, err := volume.UnescapeQualifiedName(escaped)
	fmt.Println(name, err)
	_, err = volume.EscapeQualifiedName("a~b/nfs")
	fmt.Println(err)
	// Output:
	// kubernetes.io~nfs <nil>
	// kubernetes.io/nfs <nil>
	// name: Invalid value: "a~b/nfs": must not contain "~"
}

func ExampleKindOf() {
	err := volume.AsUncertain(errors.New("unmount /data: the server does not answer"))
	if volume.KindOf(err) == volume.Uncertain {
		fmt.Println("treat the volume as mounted:", err)
	}
	// Output:
	// treat the volume as mounted: unmount /data: the server does not answer
}
