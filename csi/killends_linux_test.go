package csi_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/csitest/kubenode"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// killEnds are a driver that serves a plugin and, beside the sockets, the volumes of two pods: the pod
// "reader" has a volume read-only, the pod "writer" writable. Dir has
//
//	root        the node's root
//	driver      the driver's root
//	claims      the storage
//	csi.sock    the socket of the relay, which clients call
//	driver.sock the socket of the driver
type killEnds struct{ dir, plugin string }

// The plugins: directories, and a fake one, which mounts a volume also once for the node.
const (
	localEnds = "local"
	fakeEnds  = "fake"
)

func newKillEnds(p mounttest.Process) killEnds { return killEnds{p.Args[0], p.Args[1]} }

// serve serves the driver until ctx ends.
func (e killEnds) serve(ctx context.Context) error {
	host, err := volume.NewHost(ctx, e.dir+"/driver", volume.WithTargetDirs(e.dir+"/root"), volume.WithNodeName("node-1"))
	if err != nil {
		return err
	}
	listener, err := driver.Listen(ctx, e.dir+"/driver.sock")
	if err != nil {
		return err
	}
	kernel := mount.New(mount.Config{})
	config := driver.Config{Name: "disks.example.com", Version: "1", NodeID: "node-1", Host: host, Mounter: kernel}
	if e.plugin == localEnds {
		config.Topology = []driver.Segment{{Key: "node", Value: "node-1"}}
		config.Plugin = local.NewProvisioning(local.ProvisioningConfig{
			Config: local.Config{Mounter: kernel}, Provisioner: "disks.example.com", ClaimRoots: []string{e.dir + "/claims"},
		})
	} else {
		config.Plugin = volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel, NoAttach: true})
	}
	return driver.Serve(ctx, listener, config)
}

// serveProgram serves the driver until the end of the standard input.
func serveProgram(p mounttest.Process) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	require.NoError(p, newKillEnds(p).serve(ctx))
}

// storage returns the directory of the volume.
func (e killEnds) storage() string {
	if e.plugin == localEnds {
		return e.dir + "/claims/pvc-1"
	}
	return e.dir + "/driver/plugins/volumekit.io/fake/provisioned/pvc-1"
}

// target returns the path at which a pod has the volume.
func (e killEnds) target(pod string) string {
	return e.dir + "/root/pods/" + pod + "/volumes/kubernetes.io~csi/pvc-1/mount"
}

// controller calls the driver's controller.
func (e killEnds) controller(call func(context.Context, csipb.ControllerClient) error) error {
	conn, err := grpc.NewClient("unix:"+e.dir+"/csi.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()
	return call(context.Background(), csipb.NewControllerClient(conn))
}

// create creates the volume.
func (e killEnds) create() (created *csipb.Volume, err error) {
	err = e.controller(func(ctx context.Context, controller csipb.ControllerClient) error {
		response, err := controller.CreateVolume(ctx, &csipb.CreateVolumeRequest{
			Name: "pvc-1", VolumeCapabilities: []*csipb.VolumeCapability{kubenode.Capability()}, CapacityRange: &csipb.CapacityRange{RequiredBytes: 1 << 20},
		})
		created = response.GetVolume()
		return err
	})
	return created, err
}

// remove deletes the volume.
func (e killEnds) remove(created *csipb.Volume) error {
	return e.controller(func(ctx context.Context, controller csipb.ControllerClient) error {
		_, err := controller.DeleteVolume(ctx, &csipb.DeleteVolumeRequest{VolumeId: created.VolumeId})
		return err
	})
}

// killPods are the plugin of one process, with the volume of the pods.
type killPods struct {
	killNode
	ends    killEnds
	created *csipb.Volume
}

func newKillPods(t require.TestingT, e killEnds, created *csipb.Volume) killPods {
	return killPods{newKillNodeOf(t, e.dir, string(v1.PersistentVolumeFilesystem), mount.New(mount.Config{}), csi.Driver{Endpoint: e.dir + "/csi.sock"}), e, created}
}

// of returns the node with the volume of one pod.
func (p killPods) of(pod string) killNode {
	n := p.killNode
	n.pod = podOfClaim(pod, "pvc-1")
	pv := killSpec("pvc-1", p.created.VolumeId, v1.PersistentVolumeFilesystem).PersistentVolume
	pv.Spec.CSI.VolumeAttributes = p.created.VolumeContext
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	n.spec = volume.NewSpecFromPersistentVolume(pv, pod == "reader")
	return n
}

// up creates the volume, and brings it up for both pods.
func (p killPods) up() error {
	created, err := p.ends.create()
	if err != nil {
		return err
	}
	require.Equal(p.t, p.created.VolumeId, created.VolumeId)
	for _, pod := range []string{"reader", "writer"} {
		if err := p.of(pod).up(); err != nil {
			return err
		}
	}
	return nil
}

// down takes the volume down for both pods.
func (p killPods) down() error {
	for _, pod := range []string{"writer", "reader"} {
		if err := p.of(pod).unpublish(types.UID(pod)); err != nil {
			return err
		}
	}
	return p.of("writer").unstage()
}

// podsProgram runs one verb of the pods.
func podsProgram(verb func(killPods) error) func(mounttest.Process) {
	return func(p mounttest.Process) {
		created := &csipb.Volume{}
		require.NoError(p, protojson.Unmarshal([]byte(p.Args[2]), created))
		require.NoError(p, verb(newKillPods(p, newKillEnds(p), created)))
	}
}

// TestKilledEnds: the plugin calls a served driver, and SIGKILL ends one of both processes at any call that
// changes a file or a mount, while the volume of two pods comes up or goes down. A client that lives
// continues; one that died is replaced, every second time together with the driver. Then the work is
// completed, or the pods are deleted before. The calls keep the rules of the specification, the read-only
// volume is never mounted writable, and in the end nothing is left. With -short each work and each
// victim have one plugin.
func TestKilledEnds(t *testing.T) {
	for v, victim := range []string{"client", "driver"} {
		for w, work := range []string{upWork, deletedWork, downWork} {
			for p, plugin := range []string{localEnds, fakeEnds} {
				if testing.Short() && (v+w+p)%2 != 0 {
					continue
				}
				t.Run(plugin+"/"+victim+"/"+work, func(t *testing.T) {
					t.Parallel()
					if mounttest.Namespace(t) {
						newKilledEnds(t, plugin, work).sweep(victim)
					}
				})
			}
		}
	}
}

// The works.
const (
	upWork      = "up"
	deletedWork = "deleted" // while it comes up
	downWork    = "down"
)

// killedEnds are both ends in one test.
type killedEnds struct {
	*testing.T
	killEnds
	work    string
	relay   *relay
	created *csipb.Volume
	kills   int

	client     *killPods // that lives
	isDeleted  atomic.Bool
	stopDriver func() // nil: the driver is the victim, or has ended
}

func newKilledEnds(t *testing.T, plugin, work string) *killedEnds {
	dir, err := os.MkdirTemp("", "e") // the path of a socket is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	e := &killedEnds{T: t, killEnds: killEnds{dir, plugin}, work: work}
	for _, sub := range []string{"/root", "/driver", "/claims"} {
		require.NoError(t, os.Mkdir(dir+sub, 0o755))
	}
	e.startDriver()
	t.Cleanup(e.endDriver)
	e.relay = newRelay(t, dir+"/csi.sock", dir+"/driver.sock")
	e.created, err = e.create()
	require.NoError(t, err)
	require.NoError(t, e.remove(e.created))
	t.Cleanup(e.endClient)
	return e
}

// startDriver starts the driver in the process of the test.
func (e *killedEnds) startDriver() {
	e.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- e.serve(ctx) }()
	e.stopDriver = func() {
		cancel()
		require.NoError(e, <-served)
	}
}

func (e *killedEnds) endDriver() {
	e.Helper()
	if e.stopDriver != nil {
		e.stopDriver()
		e.stopDriver = nil
	}
}

// startClient starts a client in place of the last one.
func (e *killedEnds) startClient() {
	e.Helper()
	e.endClient()
	p := newKillPods(e, e.killEnds, e.created)
	e.client = &p
}

func (e *killedEnds) endClient() {
	e.Helper()
	if e.client != nil {
		require.NoError(e, e.client.plugin.Close())
		e.client = nil
	}
}

// repeat repeats a verb of the client until it succeeds, or the pods are deleted.
func (e *killedEnds) repeat(verb func(killPods) error) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := verb(*e.client); err == nil || e.isDeleted.Load() || time.Now().After(end) {
			return err
		}
	}
}

// verb returns the verb of the work.
func (e *killedEnds) verb() (name string, verb func(killPods) error) {
	if e.work == downWork {
		return "pods-down", killPods.down
	}
	return "pods-up", killPods.up
}

// prepare brings about the state in which the work begins, with a driver that runs.
func (e *killedEnds) prepare() {
	e.Helper()
	e.isDeleted.Store(false)
	if e.work == downWork {
		e.startClient()
		require.NoError(e, e.repeat(killPods.up))
	}
}

// sweep kills one end at each place.
func (e *killedEnds) sweep(victim string) {
	kill := e.killClients
	if victim == "driver" {
		kill = e.killDrivers
	}
	kill()
	e.Logf("killed at %d places, %d calls", e.kills, len(e.relay.model.Calls()))
	require.Positive(e, e.kills)
}

func (e *killedEnds) killClients() {
	created, err := protojson.Marshal(e.created)
	require.NoError(e, err)
	name, verb := e.verb()
	mounttest.KillAtEachCall(e, func() *exec.Cmd {
		e.prepare()
		e.endClient()
		return mounttest.Program(name, e.dir, e.plugin, string(created))
	}, func(place string) {
		e.requireReadOnly(place)
		if e.kills++; e.kills%2 == 0 {
			e.endDriver()
			e.startDriver()
		}
		e.startClient()
		if e.work != deletedWork {
			require.NoError(e, e.repeat(verb), place)
		}
		e.finish(place)
	})
}

func (e *killedEnds) killDrivers() {
	var worked chan error
	var input *os.File
	_, verb := e.verb()
	mounttest.KillAtEachCall(e, func() *exec.Cmd {
		e.prepare()
		e.endDriver()
		e.startClient()
		e.relay.isImpatient.Store(e.work == deletedWork)
		r, w, err := os.Pipe()
		require.NoError(e, err)
		cmd := mounttest.Program("serve", e.dir, e.plugin)
		cmd.Stdin, input = r, r
		done := make(chan error, 1)
		worked = done
		go func() {
			err := e.repeat(verb)
			_ = w.Close() // ends the driver
			done <- err
		}()
		return cmd
	}, func(place string) {
		e.kills++
		require.NoError(e, input.Close())
		e.requireReadOnly(place)
		var err error
		if e.work == deletedWork {
			e.isDeleted.Store(true)
			<-worked
			e.relay.isImpatient.Store(false)
			e.startDriver()
		} else {
			e.startDriver()
			err = <-worked
		}
		require.NoError(e, err, place)
		e.finish(place)
	})
}

// mounts returns the mounts below the directory.
func (e *killedEnds) mounts() (found []mount.Info) {
	e.Helper()
	table, err := mount.New(mount.Config{}).List(context.Background())
	require.NoError(e, err)
	for _, m := range table {
		if strings.HasPrefix(m.Mountpoint, e.dir+"/") {
			found = append(found, m)
		}
	}
	return found
}

// requireReadOnly requires that each mount for the pod "reader" is read-only.
func (e *killedEnds) requireReadOnly(place string) {
	e.Helper()
	for _, m := range e.mounts() {
		if m.Mountpoint == e.target("reader") {
			require.Contains(e, m.Options, "ro", place)
		}
	}
}

// finish requires the result of the work, takes the volume down, deletes the volume, and requires that
// nothing is left.
func (e *killedEnds) finish(place string) {
	e.Helper()
	e.isDeleted.Store(false)
	require.Empty(e, e.relay.violations(), place)
	if e.work == upWork {
		e.requireUp(place)
	}
	if e.work != downWork {
		require.NoError(e, e.repeat(killPods.down), place)
	}
	if e.work == upWork {
		require.NoError(e, os.Remove(e.storage()+"/file"), place) // the fake deletes empty directories only
	}
	require.Empty(e, e.mounts(), place)
	require.Empty(e, leftFiles(e.T, e.dir+"/root"), place)
	// As a provisioner repeats the calls until their outcome is known. The relay may still end a connection
	// to the driver that was killed.
	require.NoError(e, repeatUnavailable(func() error {
		_, err := e.create()
		return err
	}), place)
	require.NoError(e, repeatUnavailable(func() error { return e.remove(e.created) }), place)
	require.NoDirExists(e, e.storage(), place)
	require.Empty(e, e.relay.violations(), place)
	require.Empty(e, e.relay.model.Volumes(), place)
	require.NoError(e, filepath.WalkDir(e.dir+"/driver/plugins/volumekit.io/csi", func(name string, entry fs.DirEntry, err error) error {
		require.NoError(e, err)
		require.True(e, entry.IsDir() || strings.HasSuffix(name, ".new"), "%s: left: %s", place, name)
		return nil
	}))
}

// repeatUnavailable repeats a call while the driver is not available, for one minute.
func repeatUnavailable(call func() error) error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if err := call(); status.Code(err) != codes.Unavailable || time.Now().After(end) {
			return err
		}
	}
}

// requireUp requires that the volume is staged once and published twice, and that only one pod writes.
func (e *killedEnds) requireUp(place string) {
	e.Helper()
	var at []string
	for _, m := range e.mounts() {
		at = append(at, m.Mountpoint)
	}
	want := []string{e.target("reader"), e.target("writer")}
	if e.plugin == fakeEnds {
		want = append(want, e.dir+"/driver/plugins/volumekit.io/fake/mounts/pvc-1")
	}
	require.ElementsMatch(e, want, at, place)
	require.NoError(e, os.WriteFile(e.target("writer")+"/file", []byte("data"), 0o600), place)
	require.FileExists(e, e.storage()+"/file", place)
	require.FileExists(e, e.target("reader")+"/file", place)
	require.ErrorIs(e, os.WriteFile(e.target("reader")+"/file", nil, 0o600), syscall.EROFS, place)
}
