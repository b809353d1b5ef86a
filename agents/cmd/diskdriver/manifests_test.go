package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/internal/testbed"
)

// TestManifests: the names are those of the program, the program accepts its arguments, and both drivers have the
// same disks.
func TestManifests(t *testing.T) {
	t.Setenv("NODE_NAME", "node-7")
	set, controller := manifest.Read[*appsv1.DaemonSet](t, "daemonset.yaml"), manifest.Read[*appsv1.StatefulSet](t, "statefulset.yaml")
	require.Equal(t, set.Spec.Selector.MatchLabels, set.Spec.Template.Labels)
	require.Equal(t, controller.Spec.Selector.MatchLabels, controller.Spec.Template.Labels)
	require.Equal(t, manifest.Read[*v1.ServiceAccount](t, "../sidecar/rbac.yaml").Name, controller.Spec.Template.Spec.ServiceAccountName)

	onNode, beside := set.Spec.Template.Spec, controller.Spec.Template.Spec
	node, err := parse(onNode.Containers[0].Args, io.Discard)
	require.NoError(t, err)
	require.Equal(t, "node-7", node.Node)
	require.False(t, node.isController)
	manifest.RequireProbe(t, onNode.Containers[0], node.Health)
	require.Equal(t, node.disks, mountPath(onNode.Containers[0], "disks"))
	require.Equal(t, node.Kubelet, mountPath(onNode.Containers[0], "kubelet"))
	require.Equal(t, "/dev", mountPath(onNode.Containers[0], "dev"))

	o, err := parse(beside.Containers[0].Args, io.Discard)
	require.NoError(t, err)
	require.True(t, o.isController)
	require.Equal(t, o.disks, mountPath(beside.Containers[0], "disks"))
	require.Equal(t, source(onNode, "disks"), source(beside, "disks"))
	require.Equal(t, o.Endpoint, strings.Replace("/csi/csi.sock", mountPath(beside.Containers[1], "csi"), mountPath(beside.Containers[0], "csi"), 1))

	driver := manifest.Read[*storagev1.CSIDriver](t, "csidriver.yaml")
	require.Equal(t, []string{node.Driver, node.Driver}, []string{o.Driver, driver.Name})
	require.True(t, *driver.Spec.AttachRequired)
	class := manifest.Read[*storagev1.StorageClass](t, "csidriver.yaml")
	require.Equal(t, node.Driver, class.Provisioner)
	require.True(t, *class.AllowVolumeExpansion)
}

// mountPath returns the path of a volume in a container, or "".
func mountPath(c v1.Container, volume string) string {
	for _, m := range c.VolumeMounts {
		if m.Name == volume {
			return m.MountPath
		}
	}
	return ""
}

// source returns the source of a volume of a pod.
func source(pod v1.PodSpec, name string) v1.VolumeSource {
	for _, v := range pod.Volumes {
		if v.Name == name {
			return v.VolumeSource
		}
	}
	return v1.VolumeSource{}
}

// TestWrongArguments: the exit status is 2, and 0 for -help.
func TestWrongArguments(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	testbed.RequireCommandLines(t, program.Run,
		testbed.CommandLine{Args: "-disks=/d", Status: 2, Prints: "-node-id: required"},
		testbed.CommandLine{Args: "-node-id=n", Status: 2, Prints: "-disks: required"},
		testbed.CommandLine{Args: "-node-id=n -disks=d", Status: 2, Prints: "must be absolute"},
		testbed.CommandLine{Args: "-node-id=n -disks=/d x", Status: 2, Prints: "x"},
		testbed.CommandLine{Args: "-help", Prints: "-disks"},
		testbed.CommandLine{Args: "-node-id=n -disks=/d -kubelet-dir=/proc/missing", Status: 1, Prints: "/proc/missing"})
}

// TestMissingDisks: a controller does not make the directory of the disks: another one would hide that they are missing.
func TestMissingDisks(t *testing.T) {
	dir, err := os.MkdirTemp("", "d") // short enough for sockets
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	testbed.RequireCommandLines(t, program.Run, testbed.CommandLine{
		Args: "-controller -node-id=n -kubelet-dir=" + dir + " -disks=" + dir + "/missing", Status: 1, Prints: "no such file or directory",
	})
	require.NoDirExists(t, dir+"/missing")
}
