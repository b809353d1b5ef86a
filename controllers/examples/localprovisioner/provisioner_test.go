package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestOptions(t *testing.T) {
	for text, want := range map[string]string{
		"-help":                     "",
		"":                          "-claims: required",
		"-claims c -node A_B":       `-node "A_B": `,
		"-claims c -name a/b/c":     `-name "a/b/c": `,
		"-claims c more":            `unexpected argument "more"`,
		"-claims a,,b":              "an element of the list is empty",
		"-claims c -kubeconfig /no": "",
	} {
		var out, failures bytes.Buffer
		status := run(t.Context(), strings.Fields(text), &out, &failures)
		switch {
		case text == "-help":
			require.Zero(t, status)
			require.Contains(t, out.String(), "-claims DIR")
		case want == "":
			require.Equal(t, 1, status)
			require.Contains(t, failures.String(), "localprovisioner: -kubeconfig: ")
		default:
			require.Equal(t, 2, status)
			require.Contains(t, failures.String(), want)
		}
	}
}

// A testCluster is an API server in memory with a class, and provisioners on nodes.
type testCluster struct {
	*testing.T
	server *apitest.Server
	class  *storagev1.StorageClass
	mu     sync.Mutex
	events []api.Event
}

func newTestCluster(t *testing.T) *testCluster {
	c := &testCluster{T: t, server: apitest.NewServer(apitest.Config{}), class: decoded[*storagev1.StorageClass](t, "class.yaml")}
	_, err := c.server.Direct().StorageClasses().Create(t.Context(), c.class, metav1.CreateOptions{})
	require.NoError(t, err)
	return c
}

// start runs the provisioner of a new node until the test ends, and returns its directory of claims.
// The hostname of the node differs from its name.
func (c *testCluster) start(node string) (claims string) {
	c.Helper()
	c.addNode(node)
	claims = testDir(c.T)
	c.run(c.program(node, claims))
	return claims
}

func (c *testCluster) addNode(name string) {
	c.Helper()
	labels := map[string]string{v1.LabelHostname: "host-of-" + name}
	_, err := c.server.Direct().Nodes().Create(c.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	require.NoError(c, err)
}

func (c *testCluster) program(node, claims string) *program {
	return &program{
		options: options{name: c.class.Provisioner, node: node, root: c.TempDir(), claims: cli.Paths{claims}},
		cluster: c.server.Connect(node), mounter: mounttest.NewFake(mount.Config{}), logger: slog.New(slog.DiscardHandler),
		events: func(e api.Event) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, e)
		},
	}
}

// run runs a program until the returned function is called, at the latest at the end of the test.
func (c *testCluster) run(p *program) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(c, <-ended)
	})
	c.Cleanup(stop)
	return stop
}

// claim creates a claim as it is after the scheduler has placed its pod.
func (c *testCluster) claim(name, node, size string) *v1.PersistentVolumeClaim {
	c.Helper()
	claim, err := c.server.Direct().PersistentVolumeClaims("default").Create(c.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{
			provision.ProvisionerAnnotation: c.class.Provisioner, provision.SelectedNodeAnnotation: node,
		}},
		Spec: v1.PersistentVolumeClaimSpec{
			StorageClassName: &c.class.Name, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	return claim
}

func (c *testCluster) volumeOf(claim *v1.PersistentVolumeClaim) (*v1.PersistentVolume, error) {
	return c.server.Direct().PersistentVolumes().Get(c.Context(), "pvc-"+string(claim.UID), metav1.GetOptions{})
}

func (c *testCluster) eventually(what string, condition func() bool) {
	c.Helper()
	require.Eventually(c, condition, time.Minute, 5*time.Millisecond, what)
}

// provisioned waits for the volume of a claim.
func (c *testCluster) provisioned(claim *v1.PersistentVolumeClaim) (pv *v1.PersistentVolume) {
	c.Helper()
	c.eventually("no volume", func() (ok bool) {
		var err error
		pv, err = c.volumeOf(claim)
		return err == nil
	})
	return pv
}

// release deletes a claim, and releases its volume as the binder does.
func (c *testCluster) release(claim *v1.PersistentVolumeClaim) {
	c.Helper()
	claims := c.server.Direct().PersistentVolumeClaims("default")
	require.NoError(c, claims.Delete(c.Context(), claim.Name, metav1.DeleteOptions{}))
	c.eventually("the claim stays", func() bool {
		current, err := claims.Get(c.Context(), claim.Name, metav1.GetOptions{})
		if err == nil {
			current.Finalizers = nil // that of the protection of claims
			_, _ = claims.Update(c.Context(), current, metav1.UpdateOptions{})
		}
		return apierrors.IsNotFound(err)
	})
	pv, err := c.volumeOf(claim)
	require.NoError(c, err)
	pv.Finalizers = []string{provision.VolumeFinalizer} // without that of the protection of volumes
	pv, err = c.server.Direct().PersistentVolumes().Update(c.Context(), pv, metav1.UpdateOptions{})
	require.NoError(c, err)
	pv.Status.Phase = v1.VolumeReleased
	_, err = c.server.Direct().PersistentVolumes().UpdateStatus(c.Context(), pv, metav1.UpdateOptions{})
	require.NoError(c, err)
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
	pv := c.provisioned(claim)
	require.Equal(t, filepath.Join(second, pv.Name), pv.Spec.Local.Path)
	require.Equal(t, []string{"host-of-node-2"}, pv.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values)
	require.Equal(t, []string{pv.Name}, c.directories(second))
	require.Empty(t, c.directories(first))
	other := c.provisioned(c.claim("other", "node-1", "1Mi"))
	require.Equal(t, []string{other.Name}, c.directories(first))

	require.NoError(t, os.WriteFile(pv.Spec.Local.Path+"/file", nil, 0o600))
	c.release(claim)
	c.eventually("the volume stays", func() bool {
		_, err := c.volumeOf(claim)
		return apierrors.IsNotFound(err)
	})
	require.Empty(t, c.directories(second))
	require.Equal(t, []string{other.Name}, c.directories(first))
}

// TestProvisionerRestarts: a volume that is released while its provisioner does not run is deleted by
// the next run, and not by the provisioner of another node.
func TestProvisionerRestarts(t *testing.T) {
	c := newTestCluster(t)
	c.start("node-1")
	c.addNode("node-2")
	claims := testDir(t)
	stop := c.run(c.program("node-2", claims))
	claim := c.claim("data", "node-2", "1Mi")
	pv := c.provisioned(claim)
	c.eventually("the finalizer stays", func() bool {
		current, err := c.server.Direct().PersistentVolumeClaims("default").Get(t.Context(), claim.Name, metav1.GetOptions{})
		return err == nil && len(current.Finalizers) <= 1
	})
	stop()
	c.release(claim)
	// The provisioner of node-1 has handled the release once it has handled a later claim.
	c.provisioned(c.claim("later", "node-1", "1Mi"))
	require.DirExists(t, pv.Spec.Local.Path)
	c.run(c.program("node-2", claims))
	c.eventually("the volume stays", func() bool {
		_, err := c.volumeOf(claim)
		return apierrors.IsNotFound(err)
	})
	require.Empty(t, c.directories(claims))
}

// TestProvisionerEvents: a request that cannot be fulfilled is an event that names field and value, and
// nothing is made.
func TestProvisionerEvents(t *testing.T) {
	c := newTestCluster(t)
	claims := c.start("node-1")
	c.claim("data", "node-1", "1Ei")
	c.eventually("no event", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, e := range c.events {
			if strings.Contains(fmt.Sprintf("%+v", e), `claim.spec.resources.requests.storage: Invalid value: "1Ei"`) {
				return true
			}
		}
		return false
	})
	require.Empty(t, c.directories(claims))
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

// TestServe: metrics and health are served until the program ends; a directory that does not answer is
// no health.
func TestServe(t *testing.T) {
	c := newTestCluster(t)
	p := c.program("node-1", testDir(t))
	var err error
	p.collector, err = metrics.NewCollector(metrics.Config{})
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.serve(ctx, listener) }()
	for path, status := range map[string]int{"/metrics": 200, "/healthz": 200, "/other": 404} {
		response, err := http.Get("http://" + listener.Addr().String() + path)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		require.Equal(t, status, response.StatusCode, path)
	}
	cancel()
	require.NoError(t, <-ended)

	p.claims = append(p.claims, "/missing/directory")
	answer := httptest.NewRecorder()
	p.health(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	require.Equal(t, http.StatusServiceUnavailable, answer.Code)
}

func testDir(t *testing.T) string {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}
