package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/csi/csitest/kubenode"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/internal/kubeserver/nodesteps"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(program.Run) }) }

// startNode starts a node with the program, and a claim "data" for an export of a server at 127.0.0.1.
func startNode(t *testing.T, export string) *kubenode.Node {
	t.Helper()
	n := kubenode.Start(t)
	object := manifest.Read[*storagev1.CSIDriver](t, "csidriver.yaml")
	var o options
	o.Driver, o.Node, o.Kubelet = object.Name, n.Name, n.Root
	n.StartDriver(&kubenode.Driver{
		Name: o.Driver, Endpoint: o.Root() + "/csi.sock", Env: []string{testbed.ProgramVariable + "=1"},
		Args: []string{"-node-id=" + o.Node, "-kubelet-dir=" + o.Kubelet},
	}, object)
	source, err := json.Marshal(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: nfsserver.IPv4, Path: export}})
	require.NoError(t, err)
	n.BindVolume("data", &csipb.Volume{VolumeId: nfsserver.IPv4 + ":" + export, VolumeContext: map[string]string{
		driver.VersionKey: "1", driver.SourceKey: string(source),
	}})
	return n
}

// requireUse creates a pod, kills kubelet and driver, and creates another one. Each pod reaches a state. Both are
// deleted then, and nothing is left.
func requireUse(n *kubenode.Node, awaitState func(pod *v1.Pod)) {
	n.Helper()
	first := n.CreateWriter("first", "data")
	awaitState(first)
	n.StopKubelet()
	n.Driver.Kill()
	second := n.CreateWriter("second", "data")
	require.NoError(n, n.StartKubelet())
	n.Driver.Start(n.T)
	awaitState(second)

	n.RequireDeleted(first)
	n.RequireDeleted(second)
	require.Empty(n, n.Mounts())
	for _, dir := range []string{n.Root + "/pods", n.Root + "/plugins/kubernetes.io"} {
		require.NoError(n, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
			require.NoError(n, err)
			require.True(n, entry.IsDir(), "left: %s", name) // a kubelet keeps the directory for a volume that is not staged
			return nil
		}))
	}
}

// isolate is kubeserver.Isolate for tests with a kubelet.
func isolate(t *testing.T) (inside bool) {
	t.Helper()
	if !testbed.Long() {
		t.Skip("it needs a kubelet, which takes minutes to build: VOLUMEKIT_LONG=1")
	}
	return kubeserver.Isolate(t)
}

// TestKubeletUsesNFS: a kubelet mounts a volume of a real server for two pods. It needs a guest of make test-kubelet,
// whose kernel runs no containers: the test writes in place of them.
func TestKubeletUsesNFS(t *testing.T) {
	if !isolate(t) {
		return
	}
	export := testbed.Dir(t)
	server, err := nfsserver.New(export)
	if err != nil {
		mounttest.SkipWithout(t, "nfs", err)
	}
	t.Cleanup(func() { require.NoError(t, server.Close()) }) // after the end of the node
	n := startNode(t, export)
	published := 0
	requireUse(n, func(pod *v1.Pod) {
		at := n.VolumeDir(pod, "data")
		n.Await("the volume of "+pod.Name+" is mounted", func() bool { return n.Mounts()[at].FSType == "nfs4" })
		published++
		require.Len(t, n.Mounts(), published)
		require.NoError(t, os.WriteFile(filepath.Join(at, pod.Name), nil, 0o600))
		require.FileExists(t, filepath.Join(export, pod.Name))
	})
}

// TestKubeletReportsNFSErrors: the error of the driver for a volume without a server becomes an event of each pod.
func TestKubeletReportsNFSErrors(t *testing.T) {
	if !isolate(t) {
		return
	}
	n := startNode(t, "/export")
	requireUse(n, func(pod *v1.Pod) { awaitRefusal(n, pod) })
}

// awaitRefusal waits for the event of a pod with the driver's error.
func awaitRefusal(n *kubenode.Node, pod *v1.Pod) {
	n.Helper()
	n.Await("an event of "+pod.Name+" has the driver's error", func() bool {
		events, err := n.Clientset.CoreV1().Events(nodesteps.Namespace).List(n.Context(), metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID)})
		require.NoError(n, err)
		return slices.ContainsFunc(events.Items, func(e v1.Event) bool {
			return e.Reason == "FailedMount" && strings.Contains(e.Message, "server "+nfsserver.IPv4+": ")
		})
	})
}
