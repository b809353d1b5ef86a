package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const driverOne = "one.example.com"

type rpc = csipb.NodeServiceCapability_RPC_Type

// A fakeDriver serves volumes that are directories. It records its calls, and fails calls on request.
type fakeDriver struct {
	csipb.UnimplementedNodeServer
	t       testing.TB
	mounter mount.Interface
	backing string // directory of the volumes
	socket  string
	stop    func()
	working keylock.Map // by volume

	mu       sync.Mutex
	caps     []rpc
	requests []proto.Message
	inFlight map[string]int // by volume
	overlap  bool           // two calls for one volume have been in flight
	quiet    bool           // calls are not recorded
	// dirs are the directories of volumes that share those of others.
	dirs map[string]string
	// before and after fail a call before or after its effect.
	before, after func(request proto.Message) error
	stats         *csipb.NodeGetVolumeStatsResponse
	expanded      int64 // size of an answer
}

func newFakeDriver(t testing.TB, mounter mount.Interface, caps ...rpc) *fakeDriver {
	t.Helper()
	dir, err := os.MkdirTemp(testbed.Memory(), "csi") // a short path
	require.NoError(t, err)
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	d := &fakeDriver{t: t, mounter: mounter, backing: filepath.Join(dir, "volumes"), socket: filepath.Join(dir, "csi.sock"), caps: caps, inFlight: map[string]int{}}
	require.NoError(t, os.Mkdir(d.backing, 0o750))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d.stop = d.serve()
	t.Cleanup(func() { d.stop() })
	return d
}

// restart replaces the server and its socket.
func (d *fakeDriver) restart() {
	d.stop()
	d.stop = d.serve()
}

// serve serves until stop is called.
func (d *fakeDriver) serve() (stop func()) {
	listener, err := net.Listen("unix", d.socket)
	require.NoError(d.t, err)
	server := grpc.NewServer(grpc.UnaryInterceptor(d.intercept))
	csipb.RegisterNodeServer(server, d)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	return func() {
		server.Stop()
		<-ended
	}
}

// intercept records a call, and fails it as requested.
func (d *fakeDriver) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	message := request.(proto.Message)
	id := ""
	if of, ok := request.(interface{ GetVolumeId() string }); ok {
		id = of.GetVolumeId()
	}
	d.mu.Lock()
	if !d.quiet {
		d.requests = append(d.requests, proto.Clone(message))
	}
	before, after := d.before, d.after
	if id != "" {
		d.inFlight[id]++
		d.overlap = d.overlap || d.inFlight[id] > 1
	}
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.inFlight[id]--
		d.mu.Unlock()
	}()
	if before != nil {
		if err := before(message); err != nil {
			return nil, err
		}
	}
	answer, err := d.handle(ctx, id, request, handle)
	if err == nil && after != nil {
		err = after(message)
	}
	return answer, err
}

// handle works at one call for a volume at a time: the client may have given up an earlier one. A call that
// the client has given up before its turn has no effect.
func (d *fakeDriver) handle(ctx context.Context, id string, request any, handle grpc.UnaryHandler) (any, error) {
	if id != "" {
		unlock, err := d.working.Lock(ctx, id)
		if err != nil {
			return nil, status.FromContextError(ctx.Err()).Err()
		}
		defer unlock()
	}
	if ctx.Err() != nil {
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	answer, err := handle(ctx, request)
	if err != nil && ctx.Err() != nil { // a deadline ends on both sides, here possibly first
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	return answer, err
}

// set changes the driver between calls.
func (d *fakeDriver) set(change func(d *fakeDriver)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change(d)
}

// failWith fails calls of one method before or after their effect.
func failWith(method string, code codes.Code) func(proto.Message) error {
	return func(request proto.Message) error {
		if methodOf(request) == method {
			return status.Error(code, "as requested")
		}
		return nil
	}
}

func methodOf(request proto.Message) string {
	return strings.TrimSuffix(string(request.ProtoReflect().Descriptor().Name()), "Request")
}

// transcript returns the calls since the last one, without those for capabilities.
func (d *fakeDriver) transcript() (requests []proto.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	requests = slices.DeleteFunc(d.requests, func(r proto.Message) bool { return methodOf(r) == "NodeGetCapabilities" })
	d.requests = nil
	return requests
}

func (d *fakeDriver) methods() (names []string) {
	for _, request := range d.transcript() {
		names = append(names, methodOf(request))
	}
	return names
}

// volumeDir returns the directory of a volume.
func (d *fakeDriver) volumeDir(id string) string {
	dir := filepath.Join(d.backing, hash(id))
	if shared, ok := d.dirs[id]; ok {
		dir = shared
	}
	if err := os.MkdirAll(dir, 0o770); err != nil {
		panic(err)
	}
	return dir
}

func (d *fakeDriver) NodeGetCapabilities(context.Context, *csipb.NodeGetCapabilitiesRequest) (*csipb.NodeGetCapabilitiesResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	answer := &csipb.NodeGetCapabilitiesResponse{Capabilities: []*csipb.NodeServiceCapability{{}}}
	for _, c := range d.caps {
		answer.Capabilities = append(answer.Capabilities, &csipb.NodeServiceCapability{
			Type: &csipb.NodeServiceCapability_Rpc{Rpc: &csipb.NodeServiceCapability_RPC{Type: c}},
		})
	}
	return answer, nil
}

func (d *fakeDriver) NodeStageVolume(ctx context.Context, r *csipb.NodeStageVolumeRequest) (*csipb.NodeStageVolumeResponse, error) {
	if info, err := os.Lstat(r.StagingTargetPath); err != nil || !info.IsDir() {
		return nil, status.Errorf(codes.InvalidArgument, "no staging directory: %v", err)
	}
	if r.VolumeCapability.GetBlock() != nil {
		return &csipb.NodeStageVolumeResponse{}, nil
	}
	return &csipb.NodeStageVolumeResponse{}, d.bind(ctx, d.volumeDir(r.VolumeId), r.StagingTargetPath, false)
}

func (d *fakeDriver) NodeUnstageVolume(ctx context.Context, r *csipb.NodeUnstageVolumeRequest) (*csipb.NodeUnstageVolumeResponse, error) {
	return &csipb.NodeUnstageVolumeResponse{}, d.unmount(ctx, r.StagingTargetPath)
}

func (d *fakeDriver) NodePublishVolume(ctx context.Context, r *csipb.NodePublishVolumeRequest) (*csipb.NodePublishVolumeResponse, error) {
	if info, err := os.Lstat(filepath.Dir(r.TargetPath)); err != nil || !info.IsDir() {
		return nil, status.Errorf(codes.InvalidArgument, "no parent of the target: %v", err)
	}
	if r.VolumeCapability.GetBlock() != nil {
		err := os.WriteFile(r.TargetPath, nil, 0o600)
		return &csipb.NodePublishVolumeResponse{}, err
	}
	if err := os.Mkdir(r.TargetPath, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	source := r.StagingTargetPath
	if source == "" {
		source = d.volumeDir(r.VolumeId)
	}
	return &csipb.NodePublishVolumeResponse{}, d.bind(ctx, source, r.TargetPath, r.Readonly)
}

func (d *fakeDriver) NodeUnpublishVolume(ctx context.Context, r *csipb.NodeUnpublishVolumeRequest) (*csipb.NodeUnpublishVolumeResponse, error) {
	if err := d.unmount(ctx, r.TargetPath); err != nil {
		return nil, err
	}
	if err := os.Remove(r.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &csipb.NodeUnpublishVolumeResponse{}, nil
}

func (d *fakeDriver) NodeGetVolumeStats(context.Context, *csipb.NodeGetVolumeStatsRequest) (*csipb.NodeGetVolumeStatsResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stats == nil {
		return nil, status.Error(codes.NotFound, "no statistics")
	}
	return d.stats, nil
}

func (d *fakeDriver) NodeExpandVolume(_ context.Context, r *csipb.NodeExpandVolumeRequest) (*csipb.NodeExpandVolumeResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &csipb.NodeExpandVolumeResponse{CapacityBytes: d.expanded}, nil
}

// bind mounts a directory once.
func (d *fakeDriver) bind(ctx context.Context, source, target string, readOnly bool) error {
	req := mount.Request{Source: source, Target: target}
	if readOnly {
		req.Options = []string{"ro"}
	}
	err := d.mounter.Mount(ctx, req)
	switch {
	case errors.Is(err, mount.ErrMounted):
		return status.Error(codes.AlreadyExists, err.Error())
	case err != nil:
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

func (d *fakeDriver) unmount(ctx context.Context, target string) error {
	for {
		mounted, err := d.mounter.IsMountPoint(ctx, target)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !mounted {
			return nil
		}
		if err == nil {
			err = d.mounter.Unmount(ctx, target)
		}
		if err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
}

// A fakeNode is a node with one driver, and the sources of the plugin's arguments.
type fakeNode struct {
	t       testing.TB
	host    *volume.Host
	mounter mount.Interface
	driver  *fakeDriver
	plugin  *Plugin
	pod     *v1.Pod

	mu           sync.Mutex
	registration uint64 // 0: not registered
	object       *storagev1.CSIDriver
	secrets      map[string]map[string][]byte
	attachments  map[string]map[string]string // by name of the volume; nil map: not attached
	released     []string
	token        string
	noAttach     bool // Config.Attachments is nil
}

func newFakeNode(t testing.TB, caps ...rpc) *fakeNode {
	t.Helper()
	return newFakeNodeOn(t, mounttest.NewFake(mount.Config{}), caps...)
}

func newFakeNodeOn(t testing.TB, mounter mount.Interface, caps ...rpc) *fakeNode {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	host, err := volume.NewHost(context.Background(), root, volume.WithNodeName("node-1"))
	require.NoError(t, err)
	n := &fakeNode{
		t: t, host: host, mounter: mounter, driver: newFakeDriver(t, mounter, caps...), registration: 1, token: "tok",
		pod: &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "ns", UID: "uid-1"},
			Spec:       v1.PodSpec{ServiceAccountName: "sa"},
		},
		secrets:     map[string]map[string][]byte{},
		attachments: map[string]map[string]string{},
	}
	n.restart()
	return n
}

// restart replaces the plugin by that of a new process.
func (n *fakeNode) restart() {
	n.t.Helper()
	if n.plugin != nil {
		require.NoError(n.t, n.plugin.Close())
	}
	config := Config{Mounter: n.mounter, Drivers: n, Objects: n, Secrets: n, Tokens: n}
	if !n.noAttach {
		config.Attachments = n
	}
	plugin := New(config)
	require.NoError(n.t, plugin.Init(context.Background(), n.host))
	n.plugin = plugin
	n.t.Cleanup(func() { _ = plugin.Close() })
}

func (n *fakeNode) Driver(name string) (Driver, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Driver{Name: name, Endpoint: n.driver.socket, Registration: n.registration}, name == driverOne && n.registration > 0
}

func (n *fakeNode) GetCSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.object == nil || name != driverOne {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "csidrivers"}, name)
	}
	return n.object, ctx.Err()
}

func (n *fakeNode) GetSecret(_ context.Context, namespace, name string) (*v1.Secret, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	data, ok := n.secrets[namespace+"/"+name]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &v1.Secret{Data: data}, nil
}

func (n *fakeNode) GetServiceAccountToken(_ context.Context, _ *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.token == "" {
		return nil, errors.New("no token")
	}
	return []byte(n.token + source.Audience), nil
}

var errUnattached = errors.New("not attached")

func (n *fakeNode) WaitForAttachment(ctx context.Context, driver, handle string) (map[string]string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	metadata, ok := n.attachments[volumeName(driver, handle)]
	if !ok {
		return nil, errUnattached
	}
	return metadata, ctx.Err()
}

func (n *fakeNode) IsAttached(driver, handle string) (attached, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	metadata, known := n.attachments[volumeName(driver, handle)]
	return metadata != nil, known
}

func (n *fakeNode) ReleaseAttachment(driver, handle string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.released = append(n.released, volumeName(driver, handle))
}

// pv returns a persistent volume that is attached.
func (n *fakeNode) pv(name string) *volume.Spec {
	handle := "handle-of-" + name
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, ok := n.attachments[volumeName(driverOne, handle)]; !ok {
		n.attachments[volumeName(driverOne, handle)] = map[string]string{"device": "7"}
	}
	mode := v1.PersistentVolumeFilesystem
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: driverOne, VolumeHandle: handle, FSType: "ext4", VolumeAttributes: map[string]string{"tier": "gold"},
			}},
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, VolumeMode: &mode,
		},
	}, false)
}

// block returns pv with the volume mode Block.
func (n *fakeNode) block(name string) *volume.Spec {
	spec := n.pv(name)
	mode := v1.PersistentVolumeBlock
	spec.PersistentVolume.Spec.VolumeMode = &mode
	return spec
}

func inlineSpec(name string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: name, VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{
		Driver: driverOne, VolumeAttributes: map[string]string{"tier": "gold"},
	}}})
}

// withObject sets the CSIDriver object.
func (n *fakeNode) withObject(spec storagev1.CSIDriverSpec) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.object = &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driverOne}, Spec: spec}
}

func (n *fakeNode) newMounter(spec *volume.Spec) volume.Mounter {
	n.t.Helper()
	m, err := n.plugin.NewMounter(spec, n.pod)
	require.NoError(n.t, err)
	return m
}

func (n *fakeNode) setUp(spec *volume.Spec, args volume.MounterArgs) error {
	n.t.Helper()
	return n.newMounter(spec).SetUp(context.Background(), args)
}

func (n *fakeNode) tearDown(name string) error {
	n.t.Helper()
	u, err := n.plugin.NewUnmounter(name, n.pod.UID)
	require.NoError(n.t, err)
	return u.TearDown(context.Background())
}

// stagePath returns the device mount path of a volume.
func (n *fakeNode) stagePath(spec *volume.Spec) string {
	n.t.Helper()
	m, err := n.plugin.NewDeviceMounter()
	require.NoError(n.t, err)
	dir, err := m.GetDeviceMountPath(spec)
	require.NoError(n.t, err)
	return dir
}

func (n *fakeNode) stage(spec *volume.Spec, args volume.DeviceMounterArgs) error {
	n.t.Helper()
	m, err := n.plugin.NewDeviceMounter()
	require.NoError(n.t, err)
	return m.MountDevice(context.Background(), spec, n.stagePath(spec), args)
}

func (n *fakeNode) unstage(path string) error {
	n.t.Helper()
	m, err := n.plugin.NewDeviceUnmounter()
	require.NoError(n.t, err)
	return m.UnmountDevice(context.Background(), path)
}

// files returns the relative paths below the host's root.
func (n *fakeNode) files() (names []string) {
	n.t.Helper()
	require.NoError(n.t, filepath.WalkDir(n.host.Root(), func(path string, _ fs.DirEntry, err error) error {
		if path != n.host.Root() {
			names = append(names, strings.TrimPrefix(path, n.host.Root()+"/"))
		}
		return err
	}))
	return names
}

// requireRequests compares a transcript.
func requireRequests(t testing.TB, want, have []proto.Message) {
	t.Helper()
	text := func(all []proto.Message) (lines []string) {
		for _, r := range all {
			lines = append(lines, fmt.Sprintf("%s %v", methodOf(r), r))
		}
		return lines
	}
	require.Len(t, have, len(want), "%q", text(have))
	for i := range want {
		require.True(t, proto.Equal(want[i], have[i]), "want %v\nhave %v", want[i], have[i])
	}
}

func errorsIs(err, target error) bool { return errors.Is(err, target) }

// noMounts hides all mounts.
type noMounts struct{ mount.Interface }

func (noMounts) IsMountPoint(context.Context, string) (bool, error) { return false, nil }
