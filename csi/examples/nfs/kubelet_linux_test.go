package main

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/examples/internal/manifest"
	"github.com/volumekit/volumekit/csi/internal/kubenode"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/kubeserver/nodesteps"
	"github.com/volumekit/volumekit/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(program.Run) }) }

// TestKubeletUsesNFS: a kubelet registers the program of a node. No server serves the volume, and the driver's error
// becomes an event of the pod, also after kubelet and driver are killed. Pods that are deleted leave nothing but the
// directory that a kubelet creates for a volume before it finds that the driver does not stage; it is empty.
func TestKubeletUsesNFS(t *testing.T) {
	if !testbed.Long() {
		t.Skip("it needs a kubelet, which takes minutes to build: VOLUMEKIT_LONG=1")
	}
	if !kubeserver.Isolate(t) {
		return
	}
	n := kubenode.Start(t)
	object := manifest.Read[*storagev1.CSIDriver](t, "csidriver.yaml")
	var o options
	o.Driver, o.Node, o.Kubelet = object.Name, n.Name, n.Root
	n.StartDriver(&kubenode.Driver{
		Name: o.Driver, Endpoint: o.Root() + "/csi.sock", Env: []string{testbed.ProgramVariable + "=1"},
		Args: []string{"-node-id=" + o.Node, "-kubelet-dir=" + o.Kubelet},
	}, object)
	source, err := json.Marshal(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "127.0.0.1", Path: "/export"}})
	require.NoError(t, err)
	n.BindVolume("data", &csipb.Volume{VolumeId: "127.0.0.1:/export", VolumeContext: map[string]string{
		driver.VersionKey: "1", driver.SourceKey: string(source),
	}})
	first := n.CreateWriter("first", "data")
	awaitRefusal(n, first)
	n.StopKubelet()
	n.Driver.Kill()
	second := n.CreateWriter("second", "data")
	require.NoError(t, n.StartKubelet())
	n.Driver.Start(t)
	awaitRefusal(n, second)

	n.RequireDeleted(first)
	n.RequireDeleted(second)
	require.Empty(t, n.Mounts())
	for _, dir := range []string{n.Root + "/pods", n.Root + "/plugins/kubernetes.io"} {
		require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			require.NoError(t, err)
			require.True(t, entry.IsDir(), "left: %s", name)
			return nil
		}))
	}
}

// awaitRefusal waits for the event of a pod with the driver's error.
func awaitRefusal(n *kubenode.Node, pod *v1.Pod) {
	n.Helper()
	n.Await("an event of "+pod.Name+" has the driver's error", func() bool {
		events, err := n.Clientset.CoreV1().Events(nodesteps.Namespace).List(n.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
		require.NoError(n, err)
		return slices.ContainsFunc(events.Items, func(e v1.Event) bool {
			return e.Reason == "FailedMount" && strings.Contains(e.Message, "server 127.0.0.1: ")
		})
	})
}
