package main

import (
	"os"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/csi/csitest/kubenode"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(program.Run) }) }

// TestKubeletUsesLocal: a kubelet registers the program, and two pods write to one volume. Containers and
// sandboxes are killed, and then once more together with the kubelet and the driver while a pod is deleted. The
// mounts of pods that remain stay the same ones, and in the end nothing is left.
func TestKubeletUsesLocal(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it needs a kubelet, which takes minutes to build: VOLUMEKIT_LONG=1")
	}
	if !kubeserver.Isolate(t) {
		return
	}
	claims := testbed.Dir(t)
	n := kubenode.Start(t)
	object := manifest.Read[*storagev1.CSIDriver](t, "csidriver.yaml")
	o := options{claims: claims}
	o.Driver, o.Node, o.Kubelet = object.Name, n.Name, n.Root
	n.StartDriver(&kubenode.Driver{
		Name: o.Driver, Endpoint: o.Root() + "/csi.sock", Env: []string{testbed.ProgramVariable + "=1"},
		Args: []string{"-node-id=" + o.Node, "-kubelet-dir=" + o.Kubelet, "-claims=" + o.claims},
	}, object)
	segments := map[string]string{"topology.local.csi.volumekit.io/node": n.Name}
	n.Await("the node has the label of the topology", func() bool {
		node, err := n.Clientset.CoreV1().Nodes().Get(t.Context(), n.Name, metav1.GetOptions{})
		require.NoError(t, err)
		for key, value := range segments {
			if node.Labels[key] != value {
				return false
			}
		}
		return true
	})
	volume := n.CreateVolume("data", &csipb.TopologyRequirement{Requisite: []*csipb.Topology{{Segments: segments}}})
	require.NotEmpty(t, volume.AccessibleTopology)
	n.CreateWriter("first", "data")
	n.CreateWriter("second", "data")
	first, second := n.RunningWriter("first", "data"), n.RunningWriter("second", "data")
	mounts := n.Mounts()
	n.RequirePublished(mounts, 0, "data", first, second)
	require.FileExists(t, claims+"/data/first")
	n.RequireMeasured(second)

	n.RemoveFile(first, "data")
	n.KillContainer(first)
	n.RestartedWriter(first, "data")
	n.RemoveFile(second, "data")
	n.KillSandbox(second)
	n.RestartedWriter(second, "data")
	require.Equal(t, mounts, n.Mounts())

	n.StopKubelet()
	n.Driver.Kill()
	first, second = n.RunningPod("first"), n.RunningPod("second")
	n.KillSandbox(first)
	n.KillContainer(first)
	n.RemoveFile(second, "data")
	n.KillSandbox(second)
	n.KillContainer(second)
	require.NoError(t, n.Pods.Delete(t.Context(), first.Name, metav1.DeleteOptions{}))
	require.NoError(t, n.StartKubelet())
	n.Driver.Start(t)
	n.RequireGone(first)
	n.RestartedWriter(second, "data")
	delete(mounts, n.VolumeDir(first, "data"))
	require.Equal(t, mounts, n.Mounts())

	n.RequireDeleted(second)
	n.RequireUnstaged()
	_, err := n.Controller().DeleteVolume(t.Context(), &csipb.DeleteVolumeRequest{VolumeId: volume.VolumeId})
	require.NoError(t, err)
	left, err := os.ReadDir(claims)
	require.NoError(t, err)
	for _, entry := range left {
		require.Equal(t, ".volumekit", entry.Name())
	}
}
