package main

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

func TestOptions(t *testing.T) {
	testbed.RequireCommandLines(t, run,
		testbed.CommandLine{Args: "-help", Prints: "-claims DIR"},
		testbed.CommandLine{Args: "", Status: 2, Prints: "-claims: required"},
		testbed.CommandLine{Args: "-claims c -gone-nodes", Status: 2, Prints: "have no meaning with -gone-nodes"},
		testbed.CommandLine{Args: "-gone-nodes -node A_B -namespace n -kubeconfig /no", Status: 1, Prints: "localprovisioner: -kubeconfig: "},
		testbed.CommandLine{Args: "-claims c -node A_B", Status: 2, Prints: `-node "A_B": `},
		testbed.CommandLine{Args: "-claims c -name a/b/c", Status: 2, Prints: `-name "a/b/c": `},
		testbed.CommandLine{Args: "-claims c more", Status: 2, Prints: `unexpected argument "more"; see -help`},
		testbed.CommandLine{Args: "-claims a,,b", Status: 2, Prints: "an element of the list is empty"},
		testbed.CommandLine{Args: "-claims c -kubeconfig /no", Status: 1, Prints: "localprovisioner: -kubeconfig: "})
}

// A testCluster is an API server in memory with a class, and provisioners on nodes.
type testCluster struct {
	*clustertest.Cluster
	server *apitest.Server
	class  *storagev1.StorageClass
}

func newTestCluster(t *testing.T) *testCluster {
	server := apitest.NewServer(apitest.Config{})
	c := clustertest.New(t, server.Direct())
	return &testCluster{c, server, c.CreateClass(manifest.Read[*storagev1.StorageClass](t, "class.yaml"))}
}

// start runs the provisioner of a new node until the test ends, and returns its directory of claims.
// The hostname of the node differs from its name.
func (c *testCluster) start(node string) (claims string) {
	c.Helper()
	c.CreateNode(node, "host-of-"+node)
	claims = testbed.Dir(c)
	c.Start(c.program(node, claims).run)
	return claims
}

func (c *testCluster) program(node, claims string) *program {
	return &program{
		options: options{name: c.class.Provisioner, node: node, root: c.TempDir(), claims: cli.Paths{claims}},
		cluster: c.server.Connect(node), mounter: mounttest.NewFake(mount.Config{}), logger: slog.New(slog.DiscardHandler),
		events: c.Record,
	}
}

// claim creates a claim as it is after the scheduler has placed its pod.
func (c *testCluster) claim(name, node, size string) *v1.PersistentVolumeClaim {
	c.Helper()
	return c.CreateClaim(name, size, c.class, clustertest.OnNode(node))
}

// directories returns the names of the directories of claims.
func (c *testCluster) directories(claims string) (names []string) {
	c.Helper()
	entries, err := filepath.Glob(claims + "/[^.]*")
	require.NoError(c, err)
	for _, entry := range entries {
		names = append(names, filepath.Base(entry))
	}
	return names
}

// TestProvisionerOfEachNode: the provisioner of the selected node makes the directory of a claim, and it
// alone deletes the directory and the volume.
func TestProvisionerOfEachNode(t *testing.T) {
	c := newTestCluster(t)
	first, second := c.start("node-1"), c.start("node-2")
	claim := c.claim("data", "node-2", "1Mi")
	pv := c.WaitUntilBound(claim)
	require.Equal(t, filepath.Join(second, pv.Name), pv.Spec.Local.Path)
	require.Equal(t, []string{"host-of-node-2"}, pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values)
	require.Equal(t, []string{pv.Name}, c.directories(second))
	require.Empty(t, c.directories(first))
	other := c.WaitUntilBound(c.claim("other", "node-1", "1Mi"))
	require.Equal(t, []string{other.Name}, c.directories(first))

	require.NoError(t, os.WriteFile(pv.Spec.Local.Path+"/file", nil, 0o600))
	c.Release(claim)
	c.WaitUntilDeleted(claim)
	require.Empty(t, c.directories(second))
	require.Equal(t, []string{other.Name}, c.directories(first))
}

// TestProvisionerRestarts: a volume that is released while its provisioner does not run is deleted by
// the next run, and not by the provisioner of another node.
func TestProvisionerRestarts(t *testing.T) {
	c := newTestCluster(t)
	c.start("node-1")
	c.CreateNode("node-2", "host-of-node-2")
	claims := testbed.Dir(t)
	stop := c.Start(c.program("node-2", claims).run)
	claim := c.claim("data", "node-2", "1Mi")
	pv := c.WaitUntilBound(claim)
	c.Eventually("the finalizer stays", func() bool {
		current, err := c.API.PersistentVolumeClaims(claim.Namespace).Get(t.Context(), claim.Name, metav1.GetOptions{})
		return err == nil && len(current.Finalizers) <= 1
	})
	stop()
	c.Release(claim)
	// The provisioner of node-1 has handled the release once it has handled a later claim.
	c.WaitUntilBound(c.claim("later", "node-1", "1Mi"))
	require.DirExists(t, pv.Spec.Local.Path)
	c.Start(c.program("node-2", claims).run)
	c.WaitUntilDeleted(claim)
	require.Empty(t, c.directories(claims))
}

// TestProvisionerEvents: a request that cannot be fulfilled is an event that names field and value, and
// nothing is made. The event of a success says that no quota enforces the size.
func TestProvisionerEvents(t *testing.T) {
	c := newTestCluster(t)
	claims := c.start("node-1")
	c.claim("data", "node-1", "1Ei")
	c.RequireEvent("ProvisioningFailed", `claim.spec.resources.requests.storage: Invalid value: "1Ei"`)
	require.Empty(t, c.directories(claims))
	c.claim("other", "node-1", "1Mi")
	c.RequireEvent("ProvisioningSucceeded", "no quota enforces the size: ")
}

// TestWaitForNode: the program waits until the Node exists and has a hostname, and ends without an error
// while it waits.
func TestWaitForNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		p := &program{options: options{node: "node-1"}, cluster: server.Connect("node-1"), logger: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err := p.waitForNode(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, len(server.Calls(apitest.Call{})), 3600/30+5)

		nodes := server.Direct().Nodes()
		node, err := nodes.Create(t.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}, metav1.CreateOptions{})
		require.NoError(t, err)
		time.AfterFunc(time.Minute, func() {
			node.Labels = map[string]string{v1.LabelHostname: "host-1"}
			if _, err := nodes.Update(t.Context(), node, metav1.UpdateOptions{}); err != nil {
				t.Error(err)
			}
		})
		found, err := p.waitForNode(t.Context())
		require.NoError(t, err)
		require.Equal(t, "host-1", found.Labels[v1.LabelHostname])
	})
}

// TestEndpoints: metrics and health are served while the program runs.
func TestEndpoints(t *testing.T) {
	c := newTestCluster(t)
	c.CreateNode("node-1", "host-1")
	listener, err := service.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	p := c.program("node-1", testbed.Dir(t))
	c.Start(func(ctx context.Context) error { return p.runWith(ctx, listener) })
	c.WaitUntilBound(c.claim("data", "node-1", "1Mi"))
	c.RequireEndpoints(listener.Addr(), provision.ProvisionTotal)
}

// TestHealth: the program is healthy while all directories answer.
func TestHealth(t *testing.T) {
	p := &program{options: options{claims: cli.Paths{t.TempDir()}}}
	require.NoError(t, p.health(t.Context()))
	p.claims = append(p.claims, "/missing/directory")
	require.ErrorIs(t, p.health(t.Context()), fs.ErrNotExist)
}

// TestGoneNodes: a claim leaves a node that is gone, and a user can end a volume of it. The volume of another node stays.
func TestGoneNodes(t *testing.T) {
	c := newTestCluster(t)
	c.start("node-2")
	c.CreateNode("node-1", "host-of-node-1")
	stop := c.Start(c.program("node-1", testbed.Dir(t)).run)
	first, second := c.claim("first", "node-1", "1Mi"), c.claim("second", "node-2", "1Mi")
	pv := c.WaitUntilBound(first)
	c.WaitUntilBound(second)
	stop()
	require.NoError(t, c.API.Nodes().Delete(t.Context(), "node-1", metav1.DeleteOptions{}))
	c.Release(first)
	waiting := c.claim("waiting", "node-1", "1Mi")
	require.NoError(t, c.API.PersistentVolumes().Delete(t.Context(), pv.Name, metav1.DeleteOptions{}))

	p := c.program("", "")
	p.options = options{name: c.class.Provisioner, goneNodes: true, namespace: "kube-system"}
	p.leases = fake.NewClientset().CoordinationV1()
	c.Start(p.run)
	c.WaitUntilDeleted(first)
	c.Eventually("the claim keeps its node", func() bool {
		current, err := c.API.PersistentVolumeClaims(waiting.Namespace).Get(t.Context(), waiting.Name, metav1.GetOptions{})
		return err == nil && current.Annotations[provision.SelectedNodeAnnotation] == ""
	})
	c.RequireEvent("ProvisioningFailed", `node "node-1" does not exist`)
	c.WaitUntilBound(second)
}
