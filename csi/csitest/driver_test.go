package csitest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// everything are all capabilities that the driver implements.
var everything = csitest.Capabilities{
	Plugin:    []csipb.PluginCapability_Service_Type{hasController},
	Expansion: []csipb.PluginCapability_VolumeExpansion_Type{csipb.PluginCapability_VolumeExpansion_ONLINE},
	Controller: controllerRPCs{
		createRPC, attachRPC, growRPC, newModesRPC, csipb.ControllerServiceCapability_RPC_LIST_VOLUMES,
		csipb.ControllerServiceCapability_RPC_GET_CAPACITY, csipb.ControllerServiceCapability_RPC_GET_VOLUME,
	},
	Node: nodeRPCs{stageRPC, expandRPC, statsRPC, modesRPC, condition.Capability},
}

// TestLifeOfAVolume: a correct client breaks no rule, and the state follows the calls.
func TestLifeOfAVolume(t *testing.T) {
	c := newClient(t, csitest.Config{Capabilities: everything, KnownVolumes: true, PublishContext: map[string]string{"device": "/dev/sda"}})
	volumeContext := map[string]string{"share": "/data"}
	stage := c.stageRequest("v")
	stage.VolumeContext, stage.PublishContext = volumeContext, map[string]string{"device": "/dev/sda"}
	publish := c.publishRequest("v", "t")
	publish.VolumeContext, publish.PublishContext = maps.Clone(volumeContext), stage.PublishContext
	publish.VolumeContext["csi.storage.k8s.io/pod.name"] = "p"

	c.do(c.create("v", 10), c.create("v", 10))
	_, err := c.controller.ControllerPublishVolume(t.Context(), &csipb.ControllerPublishVolumeRequest{
		VolumeId: "v", NodeId: "node", VolumeCapability: singleWriter, VolumeContext: volumeContext,
	})
	c.do(err)
	_, err = c.node.NodeStageVolume(t.Context(), stage)
	c.do(err, c.send(publish), c.send(publish))
	require.DirExists(t, c.target("t"))
	require.Equal(t, []csitest.Volume{{
		ID: "v", Context: volumeContext, Capacity: 10, Attached: []string{"node"}, Staged: []string{c.staging("v")}, Published: []string{c.target("t")},
	}}, c.driver.Volumes())

	c.do(c.grow("v", 20), c.expand("v", c.target("t"), 20), c.expand("v", c.target("t"), 20))
	stats, err := c.node.NodeGetVolumeStats(t.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: c.target("t"), StagingTargetPath: c.staging("v")})
	c.do(err)
	require.Equal(t, int64(20), stats.GetUsage()[0].GetTotal())
	is, ok := condition.Of(stats)
	require.True(t, ok)
	require.Equal(t, condition.Condition{Message: "ok"}, is)

	c.do(c.unpublish("v", "t"), c.unpublish("v", "t"), c.unstage("v"), c.unstage("v"), c.detach("v"), c.detach("v"))
	require.NoDirExists(t, c.target("t"))
	_, err = c.controller.DeleteVolume(t.Context(), &csipb.DeleteVolumeRequest{VolumeId: "v"})
	c.do(err)
	require.Empty(t, c.driver.Volumes())
	require.Empty(t, c.driver.Violations())
	require.Equal(t, codes.NotFound, status.Code(c.grow("v", 30)), "the volume is deleted")
}

// TestNegationAfterUnknownOutcome: after an unknown outcome the opposite call, or the same call, breaks
// no rule; after a final error other arguments do not.
func TestNegationAfterUnknownOutcome(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted} {
		for _, after := range []bool{false, true} {
			c := newClient(t, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)})
			c.driver.Inject(csitest.Fault{Method: csitest.NodeStageVolume, Code: code, After: after, Times: 1})
			require.Equal(t, code, status.Code(c.stage("v")))
			c.do(c.stage("v"))
			c.driver.Inject(csitest.Fault{Method: csitest.NodePublishVolume, Code: code, After: after, Times: 1})
			require.Equal(t, code, status.Code(c.publish("v", "t")))
			require.Equal(t, after, len(c.driver.Volumes()[0].Published) == 1)
			c.do(c.unpublish("v", "t"), c.unstage("v"))
			require.Empty(t, c.driver.Violations())
			require.Empty(t, c.driver.Volumes())
		}
	}
	for code := codes.Unknown; code <= codes.Unauthenticated; code++ {
		if slices.Contains([]codes.Code{codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted}, code) {
			continue
		}
		c := newClient(t, csitest.Config{})
		c.driver.Inject(csitest.Fault{Code: code, Message: "no", Times: 1})
		err := c.publish("v", "t")
		require.Equal(t, status.Error(code, "no").Error(), err.Error())
		req := c.publishRequest("v", "t")
		req.Readonly = true
		c.do(c.send(req))
		require.Empty(t, c.driver.Violations())
	}
}

// TestEphemeralVolume: an inline volume of a pod is neither attached nor staged.
func TestEphemeralVolume(t *testing.T) {
	c := newClient(t, csitest.Config{Capabilities: everything, Mounter: mounttest.NewFake(mount.Config{})})
	req := c.publishRequest("csi-1", "t")
	req.StagingTargetPath, req.VolumeContext = "", map[string]string{"csi.storage.k8s.io/ephemeral": "true"}
	c.do(c.send(req))
	req = c.publishRequest("csi-"+strings.Repeat("0a", 32), "u")
	req.StagingTargetPath = ""
	c.do(c.send(req))
	require.Empty(t, c.driver.Violations())
}

// TestTokensMayChange: tokens and secrets of a repeated call may differ.
func TestTokensMayChange(t *testing.T) {
	c := newClient(t, csitest.Config{})
	req := c.publishRequest("v", "t")
	for _, token := range []string{"first", "second"} {
		req.VolumeContext = map[string]string{"csi.storage.k8s.io/serviceAccount.tokens": token, "a": "b"}
		req.Secrets = map[string]string{"key": "rotated " + token}
		c.do(c.send(req))
	}
	require.Empty(t, c.driver.Violations())
	require.Equal(t, "second", req.GetVolumeContext()["csi.storage.k8s.io/serviceAccount.tokens"])
}

// TestHang: a call hangs until its client gives up; a late driver completes it, and refuses other calls
// until then.
func TestHang(t *testing.T) {
	for _, late := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, csitest.Config{})
			c.driver.Inject(csitest.Fault{Method: csitest.NodePublishVolume, Delay: time.Hour, Late: late, Times: 1})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			_, err := c.node.NodePublishVolume(ctx, c.publishRequest("v", "t"))
			require.Equal(t, codes.DeadlineExceeded, status.Code(err))
			require.Equal(t, late, status.Code(c.unpublish("v", "t")) == codes.Aborted)
			time.Sleep(time.Hour)
			require.Equal(t, late, len(c.driver.Volumes()) == 1)
			c.do(c.unpublish("v", "t"))
			require.Empty(t, c.driver.Violations())
		})
	}
}

// A cancellingCodec cancels a call whose request it encodes.
type cancellingCodec struct{ cancel func() }

func (c cancellingCodec) Marshal(v any) ([]byte, error) {
	c.cancel()
	return proto.Marshal(v.(proto.Message))
}

func (cancellingCodec) Unmarshal(data []byte, v any) error {
	return proto.Unmarshal(data, v.(proto.Message))
}

func (cancellingCodec) Name() string { return "" }

// TestGivenUpBeforeArrival: a call whose client gives up before the driver has it has no effect, and breaks no rule,
// although its client goes on meanwhile.
func TestGivenUpBeforeArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, csitest.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		request := c.publishRequest("v", "t")
		request.TargetPath += "/missing/mount"
		_, err := c.node.NodePublishVolume(ctx, request, grpc.ForceCodec(cancellingCodec{cancel}))
		require.Equal(t, codes.Canceled, status.Code(err))
		synctest.Wait()
		require.Empty(t, c.driver.Calls())
		require.Empty(t, c.driver.Violations())
		require.Empty(t, c.driver.Volumes())
	})
}

// TestHangEnds: a hang ends with ClearFaults, and with the driver.
func TestHangEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, csitest.Config{})
		for _, end := range []func(){c.driver.ClearFaults, c.driver.Crash} {
			c.driver.Inject(csitest.Fault{Hang: true})
			done := make(chan error)
			go func() { done <- c.publish("v", "t") }()
			synctest.Wait()
			end()
			err := <-done
			synctest.Wait()
			require.Equal(t, c.driver.Calls()[0].Err != nil, err != nil)
			c.driver.ResetCalls()
		}
		require.Equal(t, codes.Unavailable, status.Code(c.publish("v", "t")))
		require.Empty(t, c.driver.Calls(), "nothing arrives at a dead driver")
		c.driver.ClearFaults()
		c.do(c.driver.Restart(), c.publish("v", "t"), c.unpublish("v", "t"))
		require.Empty(t, c.driver.Violations())
	})
}

// TestAnswer: a driver lies.
func TestAnswer(t *testing.T) {
	c := newClient(t, csitest.Config{Capabilities: capabilities(nodeRPCs{expandRPC}, nil)})
	c.driver.Inject(csitest.Fault{Method: csitest.NodeExpandVolume, Answer: func(m proto.Message) {
		m.(*csipb.NodeExpandVolumeResponse).CapacityBytes = -1
	}})
	c.do(c.publish("v", "t"))
	response, err := c.node.NodeExpandVolume(t.Context(), &csipb.NodeExpandVolumeRequest{VolumeId: "v", VolumePath: c.target("t")})
	c.do(err)
	require.Equal(t, int64(-1), response.GetCapacityBytes())
	c.driver.Inject(csitest.Fault{Answer: func(m proto.Message) { m.(*csipb.GetPluginInfoResponse).Name = "\xff" }})
	_, err = csipb.NewIdentityClient(c.driver.Conn()).GetPluginInfo(t.Context(), &csipb.GetPluginInfoRequest{})
	require.Equal(t, codes.Internal, status.Code(err), "no transport sends invalid UTF-8")
}

// TestMounts: the driver mounts at its paths.
func TestMounts(t *testing.T) {
	kernel := mounttest.NewFake(mount.Config{})
	c := newClient(t, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil), Mounter: kernel})
	table := func() (lines []string) {
		all, err := kernel.List(t.Context())
		require.NoError(t, err)
		for _, info := range all[1:] {
			name, err := filepath.Rel(c.dir, info.Mountpoint)
			require.NoError(t, err)
			lines = append(lines, fmt.Sprint(name, " ", info.FSType, " ", info.Source, " ", info.Flags&mount.ReadOnly != 0))
		}
		return lines
	}
	req := c.publishRequest("v", "t")
	req.Readonly = true
	c.do(c.stage("v"), c.send(req), c.send(req))
	require.Equal(t, []string{"staging/v csitest v false", "pods/t csitest v true"}, table())
	c.do(c.unpublish("v", "t"))
	require.Equal(t, []string{"staging/v csitest v false"}, table())
	c.do(c.unstage("v"))
	require.Empty(t, table())
	require.Empty(t, c.driver.Violations())
}

// TestReboot: after a reboot nothing is staged or published, and the target may exist.
func TestReboot(t *testing.T) {
	c := newClient(t, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)})
	c.do(c.stage("v"), c.publish("v", "t"), c.driver.Reboot())
	require.Empty(t, c.driver.Volumes())
	c.do(c.stage("v"), c.publish("v", "t"), c.unpublish("v", "t"), c.unstage("v"))
	require.Empty(t, c.driver.Violations())
}

// TestBlockVolume: the driver creates a file at the target.
func TestBlockVolume(t *testing.T) {
	c := newClient(t, csitest.Config{Mounter: mounttest.NewFake(mount.Config{})})
	req := c.publishRequest("v", "t")
	req.VolumeCapability = &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}, AccessMode: singleWriter.GetAccessMode(),
	}
	c.do(c.send(req), c.send(req))
	require.FileExists(t, c.target("t"))
	c.do(c.unpublish("v", "t"))
	require.NoFileExists(t, c.target("t"))
	require.Empty(t, c.driver.Violations())
}

// TestTranscript: a call is one line, without the values of secrets.
func TestTranscript(t *testing.T) {
	c := newClient(t, csitest.Config{})
	capability := mountCapability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
	capability.GetMount().MountFlags = []string{"noatime", "a b"}
	req := &csipb.NodePublishVolumeRequest{
		VolumeId: "v 1", TargetPath: "/missing/t", VolumeCapability: capability, Readonly: true,
		Secrets: map[string]string{"user": "bob", "password": "hunter22"}, VolumeContext: map[string]string{"b": "", "a": "x"},
	}
	require.Error(t, c.send(req))
	calls := c.driver.CallsOf(csitest.NodePublishVolume)
	require.Len(t, calls, 1)
	const want = `NodePublishVolume volume_id="v 1" target_path=/missing/t volume_capability={mount={fs_type=ext4 mount_flags=[noatime "a b"]} ` +
		`access_mode={mode=SINGLE_NODE_WRITER}} readonly=true volume_context={a=x b=""} secrets={password user}: FailedPrecondition`
	require.Equal(t, want, calls[0].String())
	require.Equal(t, csitest.Secrets{"user": "bob", "password": "hunter22"}, calls[0].Secrets)
	text, err := json.Marshal(calls[0].Secrets)
	require.NoError(t, err)
	for _, text := range []string{
		fmt.Sprint(calls), fmt.Sprintf("%+v %#v %q %s", calls[0], calls[0], calls[0].Secrets, c.driver.Violations()), string(text), csitest.Text(req),
	} {
		require.NotContains(t, text, "hunter22")
		require.NotContains(t, text, "bob")
	}
	require.Empty(t, c.driver.CallsOf(csitest.NodeStageVolume))
}

// TestListVolumes: pages.
func TestListVolumes(t *testing.T) {
	c := newClient(t, csitest.Config{Capabilities: everything})
	var ids []string
	for _, id := range []string{"a", "b", "c"} {
		c.do(c.create(id, 1))
	}
	for token := ""; ; {
		page, err := c.controller.ListVolumes(t.Context(), &csipb.ListVolumesRequest{MaxEntries: 2, StartingToken: token})
		c.do(err)
		for _, entry := range page.GetEntries() {
			ids = append(ids, entry.GetVolume().GetVolumeId())
		}
		if token = page.GetNextToken(); token == "" {
			break
		}
	}
	require.Equal(t, []string{"a", "b", "c"}, ids)
	got, err := c.controller.ControllerGetVolume(t.Context(), &csipb.ControllerGetVolumeRequest{VolumeId: "b"})
	c.do(err)
	require.Equal(t, "b", got.GetVolume().GetVolumeId())
	require.Empty(t, c.driver.Violations())
}

// dial returns a connection to a socket.
func dial(t *testing.T, socket string) *grpc.ClientConn {
	conn, err := grpc.NewClient("unix://"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, conn.Close()) })
	return conn
}

// TestSocket: the driver serves at a socket, and again after its death.
func TestSocket(t *testing.T) {
	c := newClient(t, csitest.Config{Capabilities: everything})
	socket := filepath.Join(c.dir, "csi.sock")
	c.do(c.driver.Listen(socket))
	identity := csipb.NewIdentityClient(dial(t, socket))
	info, err := identity.GetPluginInfo(t.Context(), &csipb.GetPluginInfoRequest{})
	c.do(err)
	require.Equal(t, c.driver.Name(), info.GetName())

	c.driver.Inject(csitest.Fault{Method: csitest.Probe, Crash: true, Times: 1})
	_, err = identity.Probe(t.Context(), &csipb.ProbeRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.FileExists(t, socket, "as after the death of a process")
	_, err = csipb.NewIdentityClient(dial(t, socket)).Probe(t.Context(), &csipb.ProbeRequest{})
	require.Equal(t, codes.Unavailable, status.Code(err))
	c.do(c.driver.Restart())
	_, err = csipb.NewIdentityClient(dial(t, socket)).GetPluginCapabilities(t.Context(), &csipb.GetPluginCapabilitiesRequest{})
	c.do(err)
	c.do(c.driver.Close())
	require.NoFileExists(t, socket)
	require.Empty(t, c.driver.Violations())
}

// TestServe: the end of the context ends Serve, and that of the driver does.
func TestServe(t *testing.T) {
	for _, end := range []func(d *csitest.Driver, cancel func()){
		func(_ *csitest.Driver, cancel func()) { cancel() },
		func(d *csitest.Driver, _ func()) { d.Crash() },
	} {
		c := newClient(t, csitest.Config{})
		socket := filepath.Join(c.dir, "csi.sock")
		listener, err := net.Listen("unix", socket)
		c.do(err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.driver.Serve(ctx, listener) }()
		_, err = csipb.NewIdentityClient(dial(t, socket)).Probe(t.Context(), &csipb.ProbeRequest{})
		c.do(err)
		end(c.driver, cancel)
		c.do(<-done)
		cancel()
	}
}

// TestConnMatchesSocket: both ways to a driver return the same responses and errors.
func TestConnMatchesSocket(t *testing.T) {
	c := newClient(t, csitest.Config{Capabilities: everything, Topology: map[string]string{"zone": "a"}, MaxVolumesPerNode: 3})
	socket := filepath.Join(c.dir, "csi.sock")
	c.do(c.driver.Listen(socket))
	conn := dial(t, socket)
	t.Cleanup(func() { require.NoError(t, c.driver.Close()) })
	c.driver.SetReady(false)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, call := range []func(conn grpc.ClientConnInterface) (proto.Message, error){
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewIdentityClient(conn).Probe(t.Context(), &csipb.ProbeRequest{})
		},
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewNodeClient(conn).NodeGetInfo(t.Context(), &csipb.NodeGetInfoRequest{})
		},
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewNodeClient(conn).NodeGetCapabilities(t.Context(), &csipb.NodeGetCapabilitiesRequest{})
		},
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewNodeClient(conn).NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{})
		},
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewNodeClient(conn).NodeUnstageVolume(t.Context(), &csipb.NodeUnstageVolumeRequest{VolumeId: "\xff"})
		},
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewControllerClient(conn).CreateSnapshot(t.Context(), &csipb.CreateSnapshotRequest{})
		},
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewGroupControllerClient(conn).GroupControllerGetCapabilities(t.Context(), &csipb.GroupControllerGetCapabilitiesRequest{})
		},
		func(conn grpc.ClientConnInterface) (proto.Message, error) {
			return csipb.NewIdentityClient(conn).Probe(canceled, &csipb.ProbeRequest{})
		},
	} {
		direct, directErr := call(c.driver.Conn())
		distant, distantErr := call(conn)
		require.Equal(t, status.Code(distantErr), status.Code(directErr), "%v, %v", distantErr, directErr)
		require.Equal(t, csitest.Text(distant), csitest.Text(direct))
	}
}
