package volume_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// The calls of a node in their order, for a volume that is attached, mounted once for the node
// and then for a pod. In a CSI client MountDevice is NodeStageVolume, SetUp is
// NodePublishVolume. After a restart the paths are recovered, and the last calls need no pod.
func Example_node() {
	ctx := context.Background()
	node, end := newExampleNode(volumetest.FakeConfig{})
	defer end()
	spec, pod := node.plugin.NewSpec("data", node.dir), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "5c0e-77"}}

	// Attach, on the cluster's side, and wait for the device, on the node's.
	attacher, err := node.plugin.NewAttacher()
	check(err)
	device, err := attacher.Attach(ctx, spec, "node-1")
	check(err)
	device, err = attacher.WaitForAttach(ctx, spec, device, pod)
	check(err)

	// Stage: once for the node.
	devices, err := node.plugin.NewDeviceMounter()
	check(err)
	staged, err := devices.GetDeviceMountPath(spec)
	check(err)
	check(devices.MountDevice(ctx, spec, staged, volume.DeviceMounterArgs{DevicePath: device}))

	// Publish: for each pod, and again to bring the content up to date.
	mounter, err := node.plugin.NewMounter(spec, pod)
	check(err)
	args := volume.MounterArgs{DevicePath: device, DeviceMountPath: staged}
	check(mounter.SetUp(ctx, args))
	args.IsRemount = true
	check(mounter.SetUp(ctx, args))

	// Expand: the plugin says for each volume whether the node has work to do.
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	storage, err := node.plugin.ExpandVolumeDevice(ctx, volume.ExpandRequest{Spec: spec, NewSize: resource.MustParse("2Gi")})
	check(err)
	if storage.NodeExpansionRequired {
		done, err := node.plugin.NodeExpand(ctx, volume.NodeResizeOptions{
			Spec: spec, NewSize: storage.Size, VolumePath: mounter.GetPath(), Pod: pod, Claim: claim,
			DevicePath: device, DeviceMountPath: staged, DeviceStagePath: staged,
		})
		check(err)
		fmt.Println("grown:", done)
	}

	// A restart: names and paths on disk are all that is left.
	found, err := node.plugin.ConstructVolumeSpec(ctx, "data", mounter.GetPath())
	check(err)
	unmounter, err := node.plugin.NewUnmounter(found.Spec.Name(), pod.UID)
	check(err)
	check(unmounter.TearDown(ctx))
	undevices, err := node.plugin.NewDeviceUnmounter()
	check(err)
	check(undevices.UnmountDevice(ctx, staged))
	name, err := node.plugin.GetVolumeName(found.Spec)
	check(err)
	detacher, err := node.plugin.NewDetacher()
	check(err)
	check(detacher.Detach(ctx, volume.DetachRequest{VolumeName: name, Node: "node-1", Spec: found.Spec}))
	fmt.Println("attached to:", node.plugin.AttachedTo(name))
	// Output:
	// grown: true
	// attached to: []
}

// A raw block device: each step gets the paths that the steps before it have returned, or
// after a restart the paths that the plugin has recovered.
func ExampleBlockVolumePaths() {
	ctx := context.Background()
	node, end := newExampleNode(volumetest.FakeConfig{})
	defer end()
	block := v1.PersistentVolumeBlock
	spec, pod := node.plugin.NewSpec("raw", node.dir), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "5c0e-77"}}
	spec.PersistentVolume.Spec.VolumeMode = &block

	mapper, err := node.plugin.NewBlockVolumeMapper(spec, pod)
	check(err)
	paths := volume.BlockVolumePaths{DevicePath: "csi-attachment"} // the result of WaitForAttach
	paths.GlobalMapPath, err = mapper.GetGlobalMapPath(spec)
	check(err)
	paths.StagingPath, err = mapper.SetUpDevice(ctx, paths)
	check(err)
	_, err = mapper.MapPodDevice(ctx, paths)
	check(err)

	dir, name := mapper.GetPodDeviceMapPath()
	found, err := node.plugin.ConstructBlockVolumeSpec(ctx, pod.UID, name, filepath.Join(dir, name))
	check(err)
	unmapper, err := node.plugin.NewBlockVolumeUnmapper(name, pod.UID)
	check(err)
	check(unmapper.UnmapPodDevice(ctx))
	paths = volume.BlockVolumePaths{DevicePath: found.DevicePath, StagingPath: found.StagingPath}
	paths.GlobalMapPath, err = unmapper.GetGlobalMapPath(found.Spec)
	check(err)
	fmt.Println("torn down:", unmapper.TearDownDevice(ctx, paths))
	// Output: torn down: <nil>
}

// An attach controller waits for the node that holds the volume, and reports a full node to
// the scheduler. Both errors are transient.
func ExampleDanglingAttachError() {
	ctx := context.Background()
	node, end := newExampleNode(volumetest.FakeConfig{MaxVolumes: 1})
	defer end()
	attacher, err := node.plugin.NewAttacher()
	check(err)
	attach := func(name string, to types.NodeName) {
		spec := node.plugin.NewSpec(name, filepath.Join(node.dir, name))
		spec.PersistentVolume.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
		_, err := attacher.Attach(ctx, spec, to)
		var dangling *volume.DanglingAttachError
		switch {
		case err == nil:
			fmt.Println(name, "is attached to", to)
		case errors.As(err, &dangling):
			fmt.Println(name, "must first be detached from", dangling.CurrentNode)
		case errors.Is(err, volume.ErrMaxVolumeCountExceeded):
			fmt.Println(to, "is full:", volume.KindOf(err))
		}
	}
	attach("a", "node-1")
	attach("a", "node-2")
	attach("b", "node-1")
	attach("b", "node-2")
	// Output:
	// a is attached to node-1
	// a must first be detached from node-1
	// node-1 is full: transient
	// b is attached to node-2
}

// A provisioner in a cluster: immediate binding has no selected node, delayed binding has one.
func ExampleProvisioner() {
	ctx := context.Background()
	node, end := newExampleNode(volumetest.FakeConfig{Nodes: []types.NodeName{"node-1"}})
	defer end()
	provision := func(options volume.VolumeOptions) {
		mode := options.PVC.Spec.VolumeMode
		if mode != nil && *mode == v1.PersistentVolumeBlock {
			if able, ok := volume.As[volume.BlockProvisioner](node.plugin); !ok || !able.SupportsBlock(ctx) {
				fmt.Println("no raw block devices")
				return
			}
		}
		provisioner, err := node.plugin.NewProvisioner(options)
		var pv *v1.PersistentVolume
		if err == nil {
			pv, err = provisioner.Provision(ctx)
		}
		var ignored *volume.IgnoredError
		switch {
		case err == nil:
			fmt.Println("store", pv.Name, "of class", options.StorageClass.Name)
		case volume.KindOf(err) == volume.Uncertain:
			fmt.Println("call again, also if the claim is deleted:", err)
		case volume.KindOf(err) == volume.Transient:
			fmt.Println("call again:", err)
		case errors.As(err, &ignored):
			fmt.Println("leave it to another provisioner")
		case errors.Is(err, volume.ErrReschedule):
			fmt.Println("remove the selected node")
		case errors.Is(err, volume.ErrInfeasible):
			fmt.Println("wait for another claim or class")
		default:
			fmt.Println("report, and call again later:", err)
		}
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data"}}
	immediate := volume.VolumeOptions{PVName: "pvc-1", PVC: claim, StorageClass: storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "fast"}, Provisioner: "volumekit.io/fake",
	}}
	provision(immediate)

	delayed := immediate
	delayed.PVName, delayed.SelectedNode = "pvc-2", &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}}
	provision(delayed)
	delayed.SelectedNode = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	provision(delayed)

	foreign := immediate
	foreign.StorageClass.Provisioner = "other.example.com"
	provision(foreign)

	selecting := immediate
	selecting.PVC = claim.DeepCopy()
	selecting.PVC.Spec.Selector = &metav1.LabelSelector{}
	provision(selecting)
	// Output:
	// store pvc-1 of class fast
	// remove the selected node
	// store pvc-2 of class fast
	// leave it to another provisioner
	// wait for another claim or class
}

// A CSI driver on top of a plugin publishes at the path that its caller chooses, and later
// gets nothing but that path. The driver derives the pod from the path, since it receives no
// pod.
func ExamplePathVolumePlugin() {
	kubelet, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(kubelet)
	ctx := context.Background()
	node, end := newExampleNode(volumetest.FakeConfig{}, volume.WithTargetDirs(kubelet))
	defer end()
	target := filepath.Join(node.host.TargetDirs()[0], "pods", "5c0e-77", "volumes", "kubernetes.io~csi", "data", "mount")

	// NodePublishVolume
	sum := sha256.Sum256([]byte(target))
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(hex.EncodeToString(sum[:16]))}}
	mounter, err := node.plugin.NewMounter(node.plugin.NewSpec("data", node.dir), pod)
	check(err)
	check(mounter.SetUpAt(ctx, target, volume.MounterArgs{ReadOnly: true}))

	// NodeGetVolumeStats and NodeUnpublishVolume
	unmounter, err := node.plugin.NewUnmounterAt(target)
	check(err)
	metrics, err := unmounter.GetMetrics(ctx)
	check(err)
	fmt.Println("capacity:", metrics.Capacity)
	check(unmounter.TearDown(ctx))
	_, err = unmounter.GetMetrics(ctx)
	fmt.Println("published:", !errors.Is(err, volume.ErrNotMounted))

	_, err = node.plugin.NewUnmounterAt("/etc/cron.d")
	fmt.Println("elsewhere:", err)
	// Output:
	// capacity: 4Ki
	// published: false
	// elsewhere: path: Invalid value: "/etc/cron.d": not below a directory for volumes
}

// An exampleNode has one plugin, and a directory for its storage.
type exampleNode struct {
	host   *volume.Host
	plugin *volumetest.FakePlugin
	dir    string
}

func newExampleNode(config volumetest.FakeConfig, options ...volume.HostOption) (exampleNode, func()) {
	root, err := os.MkdirTemp("", "")
	check(err)
	root, err = filepath.EvalSymlinks(root)
	check(err)
	dir := filepath.Join(root, "storage")
	check(os.Mkdir(dir, 0o750))
	host, err := volume.NewHost(context.Background(), root, append(options, volume.WithNodeName("node-1"))...)
	check(err)
	plugin := volumetest.NewFakePlugin(config)
	_, err = volume.NewVolumePluginMgr(context.Background(), host, plugin)
	check(err)
	return exampleNode{host, plugin, dir}, func() { check(os.RemoveAll(root)) }
}

// check ends an example: its output is not as expected then.
func check(err error) {
	if err != nil {
		panic(err)
	}
}
