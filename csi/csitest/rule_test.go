package csitest_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/csi/csitest"
)

const (
	stageRPC      = csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME
	expandRPC     = csipb.NodeServiceCapability_RPC_EXPAND_VOLUME
	statsRPC      = csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS
	modesRPC      = csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
	createRPC     = csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME
	attachRPC     = csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME
	growRPC       = csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME
	newModesRPC   = csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER
	hasController = csipb.PluginCapability_Service_CONTROLLER_SERVICE
)

type (
	nodeRPCs       = []csipb.NodeServiceCapability_RPC_Type
	controllerRPCs = []csipb.ControllerServiceCapability_RPC_Type
)

// A client calls a driver with requests that are correct, except for the changes of a test. The
// paths of volumes are in dir.
type client struct {
	*testing.T
	driver     *csitest.Driver
	node       csipb.NodeClient
	controller csipb.ControllerClient
	dir        string
}

// capabilities are those of a driver for the tests. Without any node capability a driver publishes only.
func capabilities(node nodeRPCs, controller controllerRPCs) csitest.Capabilities {
	all := csitest.Capabilities{Node: node, Controller: controller}
	if controller != nil {
		all.Plugin = []csipb.PluginCapability_Service_Type{hasController}
	}
	return all
}

func newClient(t *testing.T, config csitest.Config) *client {
	d := csitest.NewDriver(config)
	return &client{T: t, driver: d, node: csipb.NewNodeClient(d.Conn()), controller: csipb.NewControllerClient(d.Conn()), dir: t.TempDir()}
}

// staging returns the staging path of a volume, a directory.
func (c *client) staging(volume string) string {
	dir := filepath.Join(c.dir, "staging", volume)
	require.NoError(c, os.MkdirAll(dir, 0o750))
	return dir
}

// target returns a path in a directory that exists.
func (c *client) target(name string) string {
	dir := filepath.Join(c.dir, "pods")
	require.NoError(c, os.MkdirAll(dir, 0o750))
	return filepath.Join(dir, name)
}

func mountCapability(mode csipb.VolumeCapability_AccessMode_Mode) *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: "ext4"}},
		AccessMode: &csipb.VolumeCapability_AccessMode{Mode: mode},
	}
}

var singleWriter = mountCapability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)

func (c *client) stageRequest(volume string) *csipb.NodeStageVolumeRequest {
	return &csipb.NodeStageVolumeRequest{VolumeId: volume, StagingTargetPath: c.staging(volume), VolumeCapability: singleWriter}
}

func (c *client) stage(volume string) error {
	_, err := c.node.NodeStageVolume(context.Background(), c.stageRequest(volume))
	return err
}

func (c *client) unstage(volume string) error {
	_, err := c.node.NodeUnstageVolume(context.Background(), &csipb.NodeUnstageVolumeRequest{VolumeId: volume, StagingTargetPath: c.staging(volume)})
	return err
}

// publishRequest returns a request for a driver that stages.
func (c *client) publishRequest(volume, target string) *csipb.NodePublishVolumeRequest {
	return &csipb.NodePublishVolumeRequest{
		VolumeId: volume, StagingTargetPath: c.staging(volume), TargetPath: c.target(target), VolumeCapability: singleWriter,
	}
}

func (c *client) send(req *csipb.NodePublishVolumeRequest) error {
	_, err := c.node.NodePublishVolume(context.Background(), req)
	return err
}

func (c *client) publish(volume, target string) error {
	return c.send(c.publishRequest(volume, target))
}

func (c *client) unpublish(volume, target string) error {
	_, err := c.node.NodeUnpublishVolume(context.Background(), &csipb.NodeUnpublishVolumeRequest{VolumeId: volume, TargetPath: c.target(target)})
	return err
}

func (c *client) expand(volume, path string, size int64) error {
	_, err := c.node.NodeExpandVolume(context.Background(), &csipb.NodeExpandVolumeRequest{
		VolumeId: volume, VolumePath: path, CapacityRange: &csipb.CapacityRange{RequiredBytes: size},
	})
	return err
}

func (c *client) create(name string, size int64) error {
	_, err := c.controller.CreateVolume(context.Background(), &csipb.CreateVolumeRequest{
		Name: name, VolumeCapabilities: []*csipb.VolumeCapability{singleWriter}, CapacityRange: &csipb.CapacityRange{RequiredBytes: size},
		Parameters: map[string]string{"share": "/data"},
	})
	return err
}

func (c *client) attach(volume, node string) error {
	_, err := c.controller.ControllerPublishVolume(context.Background(), &csipb.ControllerPublishVolumeRequest{
		VolumeId: volume, NodeId: node, VolumeCapability: singleWriter,
	})
	return err
}

func (c *client) detach(volume string) error {
	_, err := c.controller.ControllerUnpublishVolume(context.Background(), &csipb.ControllerUnpublishVolumeRequest{VolumeId: volume, NodeId: "node"})
	return err
}

func (c *client) grow(volume string, size int64) error {
	_, err := c.controller.ControllerExpandVolume(context.Background(), &csipb.ControllerExpandVolumeRequest{
		VolumeId: volume, CapacityRange: &csipb.CapacityRange{RequiredBytes: size},
	})
	return err
}

// do requires that correct calls succeed.
func (c *client) do(errs ...error) {
	c.Helper()
	for _, err := range errs {
		require.NoError(c, err)
	}
}

// brokenRules are clients that break one rule each, in the last of their calls.
var brokenRules = []struct {
	name   string
	rule   csitest.Rule
	code   codes.Code
	config csitest.Config
	run    func(c *client) error
}{
	{"publish without stage", csitest.RuleStageFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		return c.publish("v", "t")
	}},
	{"publish without a staging path", csitest.RuleStageFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"))
		req := c.publishRequest("v", "t")
		req.StagingTargetPath = ""
		return c.send(req)
	}},
	{"publish after a stage of unknown outcome", csitest.RuleStageFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.driver.Inject(csitest.Fault{Method: csitest.NodeStageVolume, Code: codes.DeadlineExceeded, After: true, Times: 1})
		require.Error(c, c.stage("v"))
		return c.publish("v", "t")
	}},
	{"publish after a failed unstage", csitest.RuleStageFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"))
		c.driver.Inject(csitest.Fault{Method: csitest.NodeUnstageVolume, Code: codes.Unavailable, Times: 1})
		require.Error(c, c.unstage("v"))
		return c.publish("v", "t")
	}},
	{"stage at two paths", csitest.RuleStageOnce, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"))
		req := c.stageRequest("v")
		req.StagingTargetPath = c.staging("other")
		_, err := c.node.NodeStageVolume(c.Context(), req)
		return err
	}},
	{"unstage of a published volume", csitest.RuleUnpublishFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"), c.publish("v", "t"))
		return c.unstage("v")
	}},
	{"unstage after one of two unpublishes", csitest.RuleUnpublishFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"), c.publish("v", "t"), c.publish("v", "u"), c.unpublish("v", "t"))
		return c.unstage("v")
	}},
	{"unstage after a publish of unknown outcome", csitest.RuleUnpublishFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"))
		c.driver.Inject(csitest.Fault{Method: csitest.NodePublishVolume, Code: codes.Aborted, Times: 1})
		require.Error(c, c.publish("v", "t"))
		return c.unstage("v")
	}},
	{"unstage after a failed unpublish", csitest.RuleUnpublishFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"), c.publish("v", "t"))
		c.driver.Inject(csitest.Fault{Method: csitest.NodeUnpublishVolume, Code: codes.Internal, Times: 1})
		require.Error(c, c.unpublish("v", "t"))
		return c.unstage("v")
	}},
	{"stage without a directory", csitest.RuleStagingDirectory, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		req := c.stageRequest("v")
		c.do(os.Remove(req.StagingTargetPath))
		_, err := c.node.NodeStageVolume(c.Context(), req)
		return err
	}},
	{"publish without a parent", csitest.RuleTargetParent, codes.FailedPrecondition, csitest.Config{}, func(c *client) error {
		return c.publish("v", "missing/t")
	}},
	{"the client creates the target", csitest.RuleTarget, codes.FailedPrecondition, csitest.Config{}, func(c *client) error {
		c.do(os.Mkdir(c.target("t"), 0o750))
		return c.publish("v", "t")
	}},
	{"two volumes at a target", csitest.RuleOneVolume, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		c.do(c.publish("v", "t"))
		return c.publish("w", "t")
	}},
	{"two volumes at a staging path", csitest.RuleOneVolume, codes.InvalidArgument, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.do(c.stage("v"))
		req := c.stageRequest("w")
		req.StagingTargetPath = c.staging("v")
		_, err := c.node.NodeStageVolume(c.Context(), req)
		return err
	}},
	{"a volume for one pod in two", csitest.RuleOneWriter, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{modesRPC}, nil)}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeCapability = mountCapability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER)
		c.do(c.send(req))
		req.TargetPath = c.target("u")
		return c.send(req)
	}},
	{"a volume for one node on two", csitest.RuleOneWriter, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{attachRPC})}, func(c *client) error {
		c.do(c.attach("v", "node"))
		return c.attach("v", "other")
	}},
	{"other arguments after an unknown outcome", csitest.RuleSameArguments, codes.AlreadyExists, csitest.Config{}, func(c *client) error {
		c.driver.Inject(csitest.Fault{Method: csitest.NodePublishVolume, Code: codes.Unavailable, Times: 1})
		require.Error(c, c.publish("v", "t"))
		req := c.publishRequest("v", "t")
		req.Readonly = true
		return c.send(req)
	}},
	{"other arguments after a restart of the driver", csitest.RuleSameArguments, codes.AlreadyExists, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, nil)}, func(c *client) error {
		c.driver.Inject(csitest.Fault{Method: csitest.NodeStageVolume, Crash: true, Times: 1})
		require.Error(c, c.stage("v"))
		c.do(c.driver.Restart())
		req := c.stageRequest("v")
		req.VolumeContext = map[string]string{"a": "b"}
		_, err := c.node.NodeStageVolume(c.Context(), req)
		return err
	}},
	{"other arguments after a success", csitest.RuleSameArguments, codes.AlreadyExists, csitest.Config{}, func(c *client) error {
		c.do(c.publish("v", "t"))
		req := c.publishRequest("v", "t")
		req.VolumeCapability = mountCapability(csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER)
		return c.send(req)
	}},
	{"another size of a volume", csitest.RuleSameArguments, codes.AlreadyExists, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{createRPC})}, func(c *client) error {
		c.do(c.create("v", 1))
		return c.create("v", 2)
	}},
	{"stage without the capability", csitest.RuleCapability, codes.Unimplemented, csitest.Config{}, func(c *client) error {
		return c.stage("v")
	}},
	{"expand without the capability", csitest.RuleCapability, codes.Unimplemented, csitest.Config{}, func(c *client) error {
		c.do(c.publish("v", "t"))
		return c.expand("v", c.target("t"), 1)
	}},
	{"statistics without the capability", csitest.RuleCapability, codes.Unimplemented, csitest.Config{}, func(c *client) error {
		c.do(c.publish("v", "t"))
		_, err := c.node.NodeGetVolumeStats(c.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: c.target("t")})
		return err
	}},
	{"a staging path without the capability", csitest.RuleCapability, codes.OK, csitest.Config{Capabilities: capabilities(nodeRPCs{statsRPC}, nil)}, func(c *client) error {
		c.do(c.publish("v", "t"))
		_, err := c.node.NodeGetVolumeStats(c.Context(), &csipb.NodeGetVolumeStatsRequest{
			VolumeId: "v", VolumePath: c.target("t"), StagingTargetPath: c.staging("v"),
		})
		return err
	}},
	{"an access mode without the capability", csitest.RuleCapability, codes.OK, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeCapability = mountCapability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER)
		return c.send(req)
	}},
	{"a mount group without the capability", csitest.RuleCapability, codes.OK, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeCapability = mountCapability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
		req.VolumeCapability.GetMount().VolumeMountGroup = "1000"
		return c.send(req)
	}},
	{"attach without the capability", csitest.RuleCapability, codes.Unimplemented, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{createRPC})}, func(c *client) error {
		return c.attach("v", "node")
	}},
	{"read-only attach without the capability", csitest.RuleCapability, codes.OK, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{attachRPC})}, func(c *client) error {
		_, err := c.controller.ControllerPublishVolume(c.Context(), &csipb.ControllerPublishVolumeRequest{
			VolumeId: "v", NodeId: "node", VolumeCapability: singleWriter, Readonly: true,
		})
		return err
	}},
	{"no controller", csitest.RuleCapability, codes.Unimplemented, csitest.Config{}, func(c *client) error {
		_, err := c.controller.ControllerGetCapabilities(c.Context(), &csipb.ControllerGetCapabilitiesRequest{})
		return err
	}},
	{"no volume ID", csitest.RuleRequired, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		return c.publish("", "t")
	}},
	{"no volume capability", csitest.RuleRequired, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeCapability = nil
		return c.send(req)
	}},
	{"no access mode", csitest.RuleRequired, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeCapability = mountCapability(csipb.VolumeCapability_AccessMode_UNKNOWN)
		return c.send(req)
	}},
	{"no access type", csitest.RuleRequired, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeCapability = &csipb.VolumeCapability{AccessMode: singleWriter.GetAccessMode()}
		return c.send(req)
	}},
	{"a range without a size", csitest.RuleRequired, codes.InvalidArgument, csitest.Config{Capabilities: capabilities(nodeRPCs{expandRPC}, nil)}, func(c *client) error {
		c.do(c.publish("v", "t"))
		return c.expand("v", c.target("t"), 0)
	}},
	{"a long ID", csitest.RuleLimit, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeId = strings.Repeat("v", 129)
		return c.send(req)
	}},
	{"a long context", csitest.RuleLimit, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeContext = map[string]string{"key": strings.Repeat("v", 4094)}
		return c.send(req)
	}},
	{"long mount flags", csitest.RuleLimit, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.VolumeCapability = mountCapability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
		req.VolumeCapability.GetMount().MountFlags = []string{strings.Repeat("v", 4000), strings.Repeat("v", 97)}
		return c.send(req)
	}},
	{"a negative size", csitest.RuleLimit, codes.InvalidArgument, csitest.Config{Capabilities: capabilities(nodeRPCs{expandRPC}, nil)}, func(c *client) error {
		c.do(c.publish("v", "t"))
		return c.expand("v", c.target("t"), -1)
	}},
	{"a relative path", csitest.RulePath, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.TargetPath = "pods/t"
		return c.send(req)
	}},
	{"a path that is not clean", csitest.RulePath, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.TargetPath += "/../t"
		return c.send(req)
	}},
	{"a secret of another call", csitest.RuleSecrets, codes.Unauthenticated, csitest.Config{
		Capabilities: capabilities(nodeRPCs{stageRPC}, nil), Secrets: map[csitest.Method]csitest.Secrets{csitest.NodeStageVolume: {"key": "for staging"}},
	}, func(c *client) error {
		req := c.stageRequest("v")
		req.Secrets = map[string]string{"key": "for staging"}
		_, err := c.node.NodeStageVolume(c.Context(), req)
		c.do(err)
		publish := c.publishRequest("v", "t")
		publish.Secrets = req.Secrets
		return c.send(publish)
	}},
	{"a missing secret", csitest.RuleSecrets, codes.Unauthenticated, csitest.Config{
		Secrets: map[csitest.Method]csitest.Secrets{csitest.NodePublishVolume: {"key": "for publishing"}},
	}, func(c *client) error {
		return c.publish("v", "t")
	}},
	{"a secret with a bad name", csitest.RuleSecrets, codes.OK, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.Secrets = map[string]string{"a b": "c"}
		return c.send(req)
	}},
	{"a secret in the volume context", csitest.RuleSecretLeak, codes.OK, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.Secrets, req.VolumeContext = map[string]string{"password": "hunter22"}, map[string]string{"options": "password=hunter22"}
		return c.send(req)
	}},
	{"a secret in the mount flags", csitest.RuleSecretLeak, codes.OK, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.Secrets = map[string]string{"password": "hunter22"}
		c.do(c.send(req))
		other := c.publishRequest("w", "u")
		other.VolumeCapability = mountCapability(csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER)
		other.VolumeCapability.GetMount().MountFlags = []string{"password=hunter22"}
		return c.send(other)
	}},
	{"stage without attach", csitest.RuleAttachFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, controllerRPCs{attachRPC})}, func(c *client) error {
		return c.stage("v")
	}},
	{"publish without attach", csitest.RuleAttachFirst, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{attachRPC})}, func(c *client) error {
		c.do(c.attach("v", "other"))
		return c.publish("v", "t")
	}},
	{"detach of a staged volume", csitest.RuleDetachLast, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nodeRPCs{stageRPC}, controllerRPCs{attachRPC})}, func(c *client) error {
		c.do(c.attach("v", "node"), c.stage("v"))
		return c.detach("v")
	}},
	{"detach of a published volume", csitest.RuleDetachLast, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{attachRPC})}, func(c *client) error {
		c.do(c.attach("v", "node"), c.publish("v", "t"))
		return c.detach("v")
	}},
	{"deletion of an attached volume", csitest.RuleDeleteLast, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{createRPC, attachRPC})}, func(c *client) error {
		c.do(c.create("v", 1))
		c.driver.Attach("v", "other", nil)
		_, err := c.controller.DeleteVolume(c.Context(), &csipb.DeleteVolumeRequest{VolumeId: "v"})
		return err
	}},
	{"another publish context", csitest.RulePublishContext, codes.InvalidArgument, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{attachRPC})}, func(c *client) error {
		c.driver.Attach("v", "node", map[string]string{"device": "/dev/sda"})
		return c.publish("v", "t")
	}},
	{"a publish context without attach", csitest.RulePublishContext, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		req := c.publishRequest("v", "t")
		req.PublishContext = map[string]string{"device": "/dev/sda"}
		return c.send(req)
	}},
	{"another volume context", csitest.RuleVolumeContext, codes.InvalidArgument, csitest.Config{}, func(c *client) error {
		c.driver.AddVolume(csitest.Volume{ID: "v", Context: map[string]string{"share": "/data"}})
		req := c.publishRequest("v", "t")
		req.VolumeContext = map[string]string{"share": "/", "csi.storage.k8s.io/pod.name": "p"}
		return c.send(req)
	}},
	{"statistics of an unpublished volume", csitest.RuleVolumePath, codes.NotFound, csitest.Config{Capabilities: capabilities(nodeRPCs{statsRPC}, nil)}, func(c *client) error {
		c.do(c.publish("v", "t"), c.unpublish("v", "t"))
		_, err := c.node.NodeGetVolumeStats(c.Context(), &csipb.NodeGetVolumeStatsRequest{VolumeId: "v", VolumePath: c.target("t")})
		return err
	}},
	{"expansion before publish", csitest.RuleVolumePath, codes.NotFound, csitest.Config{Capabilities: capabilities(nodeRPCs{expandRPC}, nil)}, func(c *client) error {
		return c.expand("v", c.target("t"), 1)
	}},
	{"expansion before that of the controller", csitest.RuleExpandOrder, codes.OutOfRange, csitest.Config{Capabilities: capabilities(nodeRPCs{expandRPC}, controllerRPCs{growRPC})}, func(c *client) error {
		c.driver.AddVolume(csitest.Volume{ID: "v", Capacity: 1})
		c.do(c.publish("v", "t"))
		return c.expand("v", c.target("t"), 2)
	}},
	{"expansion of a published volume offline", csitest.RuleExpandOrder, codes.FailedPrecondition, csitest.Config{Capabilities: capabilities(nil, controllerRPCs{growRPC})}, func(c *client) error {
		c.do(c.publish("v", "t"))
		return c.grow("v", 2)
	}},
	{"a smaller size", csitest.RuleShrink, codes.OutOfRange, csitest.Config{Capabilities: capabilities(nodeRPCs{expandRPC}, nil)}, func(c *client) error {
		c.do(c.publish("v", "t"), c.expand("v", c.target("t"), 2))
		return c.expand("v", c.target("t"), 1)
	}},
	{"two calls at a time", csitest.RuleOneCall, codes.Aborted, csitest.Config{}, func(c *client) error {
		c.driver.Inject(csitest.Fault{Method: csitest.NodePublishVolume, Hang: true, Times: 1})
		done := make(chan error)
		go func() { done <- c.publish("v", "t") }()
		for len(c.driver.Calls()) == 0 {
			runtime.Gosched()
		}
		err := c.unpublish("v", "u")
		c.driver.ClearFaults()
		c.do(<-done)
		return err
	}},
}

// TestRules: a client that breaks one rule is told this rule and no other one.
func TestRules(t *testing.T) {
	for _, tt := range brokenRules {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, tt.config)
			err := tt.run(c)
			require.Equal(t, tt.code, status.Code(err), "%v", err)
			violations := c.driver.Violations()
			require.Len(t, violations, 1, "%v", violations)
			require.Equal(t, tt.rule, violations[0].Rule, "%v", violations)
			require.Contains(t, violations[0].String(), string(tt.rule))
		})
	}
}

// TestEachRuleIsBroken: brokenRules has each rule.
func TestEachRuleIsBroken(t *testing.T) {
	text, err := os.ReadFile("rule.go")
	require.NoError(t, err)
	broken := map[string]bool{}
	for _, tt := range brokenRules {
		broken[string(tt.rule)] = true
	}
	rules := regexp.MustCompile(`Rule = "(.*)"`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, rules)
	for _, rule := range rules {
		require.True(t, broken[rule[1]], "no client breaks: %s", rule[1])
	}
	require.Len(t, broken, len(rules))
}
