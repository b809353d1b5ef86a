package sidecar_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// A process is a part of a test that ends and begins again.
type process struct {
	t    *testing.T
	run  func(context.Context) error
	mu   sync.Mutex
	stop func()
}

func (p *process) start() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.run(ctx) }()
	p.stop = func() {
		cancel()
		require.NoError(p.t, <-ended)
	}
}

// restart ends the process, and starts it with empty memory.
func (p *process) restart() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
	p.start()
}

// end ends the process.
func (p *process) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// newProcess runs a part until the end of the test.
func newProcess(t *testing.T, run func(context.Context) error) *process {
	p := &process{t: t, run: run}
	p.start()
	t.Cleanup(p.end)
	return p
}

// restarts is the number of ends of a process in TestServedDriver.
const restarts = 100

// TestLargeAnswer: a driver has acted that answers with more than gRPC receives. Its code is not that of a full node.
func TestLargeAnswer(t *testing.T) {
	w, d := newSocketWorld(t)
	large := map[string]string{"k": strings.Repeat("x", 5<<20)}
	w.driver.Inject(csitest.Fault{Method: csitest.CreateVolume, Answer: func(answer proto.Message) {
		answer.(*csipb.CreateVolumeResponse).Volume.VolumeContext = large
	}})
	w.driver.Inject(csitest.Fault{Method: csitest.ControllerPublishVolume, Answer: func(answer proto.Message) {
		answer.(*csipb.ControllerPublishVolumeResponse).PublishContext = large
	}})
	csiNodes, nodes := api.NewCache(w.cluster.CSINodes(), api.CacheConfig{}), api.NewCache(w.cluster.Nodes(), api.CacheConfig{})
	w.start(csiNodes.Run)
	w.start(nodes.Run)
	require.NoError(t, csiNodes.WaitForSync(t.Context()))
	require.NoError(t, nodes.WaitForSync(t.Context()))
	p, err := sidecar.NewProvisioner(d, sidecar.ProvisionerConfig{Cluster: w.cluster, CSINodes: csiNodes, Nodes: nodes})
	require.NoError(t, err)
	o := w.options(w.createClass(nil, nil), newClaim("c"))
	o.SelectedNode = w.createNode("a", "north")
	_, err = p.Provision(t.Context(), o)
	require.Len(t, w.driver.Volumes(), 1)
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
	require.NotErrorIs(t, err, volume.ErrReschedule)

	a, err := sidecar.NewAttacher(d, w.cluster, "")
	require.NoError(t, err)
	w.addVolume(nil)
	_, err = a.Attach(t.Context(), attachment.Request{Volume: newVolume(nil), Node: "a", NodeID: "id-a"})
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
	require.Equal(t, codes.Internal, status.Code(err), "%v", err)
}

// TestLargeList: a list above the limit of an answer is read in pages.
func TestLargeList(t *testing.T) {
	const volumes = 2*256 + 1
	w, d := newSocketWorld(t)
	large := map[string]string{"k": strings.Repeat("x", 15<<10)}
	for i := range volumes {
		id := fmt.Sprint("v", i)
		w.driver.AddVolume(csitest.Volume{ID: id, Context: large})
		w.driver.Attach(id, "id-a", nil)
	}
	a, err := sidecar.NewAttacher(d, w.cluster, "")
	require.NoError(t, err)
	attached, err := a.(attachment.Lister).ListAttached(t.Context())
	require.NoError(t, err)
	ids := map[string]bool{}
	for _, listed := range attached {
		ids[listed.VolumeHandle] = true
	}
	require.Len(t, ids, volumes)
	require.Equal(t, []string{
		"ListVolumes", "ListVolumes max_entries=256", "ListVolumes max_entries=256 starting_token=256", "ListVolumes max_entries=256 starting_token=512",
	}, w.texts(csitest.ListVolumes))

	w.driver.ResetCalls()
	w.driver.Inject(csitest.Fault{Method: csitest.ListVolumes, Answer: func(answer proto.Message) {
		answer.(*csipb.ListVolumesResponse).NextToken = strings.Repeat("x", 5<<20)
	}})
	_, err = a.(attachment.Lister).ListAttached(t.Context())
	require.Equal(t, codes.Internal, status.Code(err), "%v", err)
	require.Len(t, w.texts(csitest.ListVolumes), 2)
}

// newSocketWorld returns a cluster with a driver at a socket, until the end of the test.
func newSocketWorld(t *testing.T) (*world, *sidecar.Driver) {
	server := apitest.NewServer(apitest.Config{Seed: 1})
	w := &world{T: t, server: server, cluster: server.Direct()}
	w.driver = csitest.NewDriver(csitest.Config{Name: driverName, Capabilities: all, KnownVolumes: true})
	socket := filepath.Join(t.TempDir(), "s")
	require.NoError(t, w.driver.Listen(socket))
	d, err := sidecar.Open(t.Context(), sidecar.DriverConfig{Endpoint: socket})
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, end := range w.ends {
			end()
		}
		require.NoError(t, d.Close())
		require.NoError(t, w.driver.Close())
	})
	return w, d
}

// serveFake serves the fake plugin on a socket.
func serveFake(t *testing.T, dir string) *process {
	kernel := mounttest.NewFake(mount.Config{})
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel})
	return newProcess(t, func(ctx context.Context) error {
		host, err := volume.NewHost(ctx, dir, volume.WithNodeName("a"))
		if err != nil {
			return err
		}
		listener, err := driver.Listen(ctx, dir+"/csi.sock")
		if err != nil {
			return err
		}
		return driver.Serve(ctx, listener, driver.Config{
			Name: driverName, Version: "1", NodeID: "a", Plugin: plugin, Host: host, Mounter: kernel, GracePeriod: time.Millisecond,
			Topology: []driver.Segment{{Key: "zone", Label: "zone", Value: "north"}},
		})
	})
}

// TestServedDriver: the claims of users are provisioned, attached, expanded, detached and deleted by a served plugin,
// while the sidecar and the driver end and begin again at any moment. Nothing is left.
func TestServedDriver(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	server := apitest.NewServer(apitest.Config{})
	w := &world{T: t, server: server, cluster: server.Direct()}
	defer func() {
		for _, end := range w.ends {
			end()
		}
	}()
	create(t, w.cluster.Namespaces(), &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	served := serveFake(t, dir)
	w.runOthers()
	companions := newProcess(t, func(ctx context.Context) error {
		return sidecar.Run(ctx, sidecar.Config{
			Endpoint: dir + "/csi.sock", Cluster: server.Connect("sidecar"), Events: w.record,
			Backoff: 5 * time.Millisecond, MaxBackoff: 100 * time.Millisecond,
			Registration: &registration.ServerConfig{Dir: dir, Endpoint: dir + "/csi.sock"},
		})
	})
	w.createClass(nil, nil)
	w.createNode("a", "north")

	var disturbing sync.WaitGroup
	disturbing.Go(func() {
		random := rand.New(rand.NewPCG(1, 2))
		for n := range restarts {
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
			if n%4 == 3 {
				served.restart()
			} else {
				companions.restart()
			}
		}
	})
	for _, step := range []func(name string){w.claimBlock, w.attachClaim, w.growClaim, w.detachClaim, w.deleteClaim} {
		for _, name := range []string{"one", "two", "three"} {
			step(name)
		}
	}
	disturbing.Wait()
	w.requireEventually("volumes are left", func() bool {
		list, err := w.cluster.PersistentVolumes().List(t.Context(), metav1.ListOptions{})
		return err == nil && len(list.Items) == 0
	})
	w.requireEventually("the driver is not registered", func() bool {
		info, err := os.Stat(filepath.Join(dir, driverName+"-reg.sock"))
		return err == nil && info.Mode().Type() == os.ModeSocket
	})
	requireNoRecords(t, dir)
}

// claimBlock creates a claim: the fake plugin expands block volumes without a node.
func (w *world) claimBlock(name string) {
	claim := newClaim(name)
	mode := v1.PersistentVolumeBlock
	claim.Spec.VolumeMode = &mode
	create(w, w.cluster.PersistentVolumeClaims(namespace), claim)
}

// attachClaim attaches the volume of a claim once it is bound.
func (w *world) attachClaim(name string) {
	w.requireEventually("claim "+name+" is not bound", func() bool { return w.claim(name).Status.Phase == v1.ClaimBound })
	w.attach(w.volumeOf(name), "a")
}

// growClaim requests more for a claim once it is attached, and waits for the size.
func (w *world) growClaim(name string) {
	w.requireEventually("claim "+name+" is not attached", func() bool {
		current, err := w.attachment(w.attachmentName(name))
		require.NoError(w, err)
		return current.Status.Attached
	})
	_, err := w.cluster.PersistentVolumeClaims(namespace).Patch(w.Context(), name, types.MergePatchType,
		[]byte(`{"spec":{"resources":{"requests":{"storage":"3Gi"}}}}`), metav1.PatchOptions{})
	require.NoError(w, err)
	w.requireEventually("claim "+name+" is not expanded", func() bool {
		claim := w.claim(name)
		if claim.Status.AllocatedResourceStatuses[v1.ResourceStorage] == v1.PersistentVolumeClaimNodeResizePending {
			w.growOnNode(claim)
		}
		capacity := claim.Status.Capacity[v1.ResourceStorage]
		return capacity.String() == "3Gi"
	})
}

// growOnNode ends the expansion of a claim as a node does: the driver, which has lost the answer of the plugin,
// requires it also for a block volume.
func (w *world) growOnNode(claim *v1.PersistentVolumeClaim) {
	claim.Status.Capacity[v1.ResourceStorage] = claim.Status.AllocatedResources[v1.ResourceStorage]
	claim.Status.AllocatedResourceStatuses, claim.Status.Conditions = nil, nil
	_, _ = w.cluster.PersistentVolumeClaims(namespace).UpdateStatus(w.Context(), claim, metav1.UpdateOptions{}) // or a conflict
}

func (w *world) detachClaim(name string) {
	attachment := w.attachmentName(name)
	require.NoError(w, w.cluster.VolumeAttachments().Delete(w.Context(), attachment, metav1.DeleteOptions{}))
	w.requireEventually("claim "+name+" is not detached", func() bool {
		_, err := w.attachment(attachment)
		return apierrors.IsNotFound(err)
	})
}

func (w *world) deleteClaim(name string) {
	require.NoError(w, w.cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), name, metav1.DeleteOptions{}))
}

// attachmentName returns the name of the VolumeAttachment of a claim.
func (w *world) attachmentName(claim string) string {
	return "attachment-" + w.claim(claim).Spec.VolumeName + "-a"
}

// An eventLog prints the events of a world at the time of a failure.
type eventLog world

func (e *eventLog) String() string { return (*world)(e).eventTexts() }

func (w *world) requireEventually(what string, condition func() bool) {
	require.Eventually(w, condition, time.Minute, 5*time.Millisecond, "%s: %s", what, (*eventLog)(w))
}

// requireNoRecords requires that neither the driver nor the plugin has a file of a volume.
func requireNoRecords(t *testing.T, dir string) {
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		require.NoError(t, err)
		require.NotContains(t, filepath.Base(path), "pvc-", "left")
		return nil
	}))
}
