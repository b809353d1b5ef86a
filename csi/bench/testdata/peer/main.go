// Peer is the kubelet's client of CSI drivers as a subject of the benchmark. It is in a directory that the
// go command's patterns leave out, so that the module csi does not require Kubernetes: peer.mod of the
// benchmark has its version.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path"
	"testing"

	"github.com/volumekit/volumekit/csi/bench/internal/subject"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/mount-utils"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run() error {
	c, ok, err := subject.Read()
	if !ok || err != nil {
		return fmt.Errorf("%s has no configuration: %w", subject.Variable, err)
	}
	if err := discardLogs(); err != nil {
		return err
	}
	n, err := newNode(c)
	if err != nil {
		return err
	}
	return subject.Main(subject.Client{Up: n.up, Down: n.down})
}

// discardLogs drops the logs, whose output is no part of the measurement.
func discardLogs() error {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return err
		}
	}
	klog.SetOutput(io.Discard)
	return nil
}

// A node is the kubelet's client with one registered driver.
type node struct {
	plugin  volume.DeviceMountableVolumePlugin
	devices volume.DeviceMounter
}

// A host is the kubelet for the plugin. Its API server is in memory, and its mounts are real.
type host struct {
	kubelet
	mounter mount.Interface
	files   hostutil.HostUtils
}

type kubelet interface {
	volume.VolumeHost
	volume.KubeletVolumeHost
}

func (h host) GetMounter() mount.Interface     { return h.mounter }
func (h host) GetHostUtil() hostutil.HostUtils { return h.files }

func newNode(c subject.Config) (*node, error) {
	drivers := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	if err := drivers.Add(subject.Object()); err != nil {
		return nil, err
	}
	api := fake.NewClientset(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: subject.Node}})
	plain := volumetesting.NewFakeKubeletVolumeHostWithCSINodeName(new(testing.T), c.Root, api, nil, subject.Node, storagelisters.NewCSIDriverLister(drivers), nil)
	plugin := csi.ProbeVolumePlugins()[0]
	if err := plugin.Init(host{plain, mount.New(""), hostutil.NewHostUtil()}); err != nil {
		return nil, err
	}
	if err := plain.WaitForKubeletErrNil(); err != nil {
		return nil, err
	}
	if err := csi.PluginHandler.RegisterPlugin(context.Background(), subject.Driver, c.Socket, []string{"1.0.0"}, nil); err != nil {
		return nil, err
	}
	n := &node{plugin: plugin.(volume.DeviceMountableVolumePlugin)}
	devices, err := n.plugin.NewDeviceMounter()
	if err != nil {
		return nil, err
	}
	n.devices = devices
	return n, os.MkdirAll(path.Dir(plain.GetPodVolumeDir(subject.Pod().UID, "kubernetes.io~csi", "volume")), 0o750)
}

func (n *node) up(number int) error {
	spec := volume.NewSpecFromPersistentVolume(subject.Volume(number), false)
	at, err := n.devices.GetDeviceMountPath(spec)
	if err != nil {
		return err
	}
	devices, err := n.plugin.NewDeviceMounter() // as for each operation of a kubelet
	if err != nil {
		return err
	}
	if err := devices.MountDevice(spec, "", at, volume.DeviceMounterArgs{}); err != nil {
		return err
	}
	m, err := n.plugin.NewMounter(spec, subject.Pod())
	if err != nil {
		return err
	}
	return m.SetUp(volume.MounterArgs{})
}

func (n *node) down(number int) error {
	spec := volume.NewSpecFromPersistentVolume(subject.Volume(number), false)
	u, err := n.plugin.NewUnmounter(spec.Name(), subject.Pod().UID)
	if err != nil {
		return err
	}
	if err := u.TearDown(); err != nil {
		return err
	}
	at, err := n.devices.GetDeviceMountPath(spec)
	if err != nil {
		return err
	}
	devices, err := n.plugin.NewDeviceUnmounter()
	if err != nil {
		return err
	}
	return devices.UnmountDevice(at)
}
