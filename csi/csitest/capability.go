package csitest

import (
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/csi/internal/condition"
)

type (
	nodeRPC       = csipb.NodeServiceCapability_RPC_Type
	controllerRPC = csipb.ControllerServiceCapability_RPC_Type
)

// nodeCapabilities are, by method, the capabilities of which one is required.
var nodeCapabilities = map[Method][]nodeRPC{
	NodeStageVolume:    {csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	NodeUnstageVolume:  {csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
	NodeExpandVolume:   {csipb.NodeServiceCapability_RPC_EXPAND_VOLUME},
	NodeGetVolumeStats: {csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS, condition.Capability},
}

// controllerCapabilities are, by method, the required capabilities.
var controllerCapabilities = map[Method]controllerRPC{
	CreateVolume:              csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
	DeleteVolume:              csipb.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
	ControllerPublishVolume:   csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
	ControllerUnpublishVolume: csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME,
	ListVolumes:               csipb.ControllerServiceCapability_RPC_LIST_VOLUMES,
	GetCapacity:               csipb.ControllerServiceCapability_RPC_GET_CAPACITY,
	ControllerExpandVolume:    csipb.ControllerServiceCapability_RPC_EXPAND_VOLUME,
	ControllerModifyVolume:    csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME,
	ControllerGetVolume:       csipb.ControllerServiceCapability_RPC_GET_VOLUME,
}

func (d *Driver) declaresNode(rpc nodeRPC) bool {
	return slices.Contains(d.config.Capabilities.Node, rpc)
}

func (d *Driver) declaresController(rpc controllerRPC) bool {
	return slices.Contains(d.config.Capabilities.Controller, rpc)
}

func (d *Driver) declaresPlugin(service csipb.PluginCapability_Service_Type) bool {
	return slices.Contains(d.config.Capabilities.Plugin, service)
}

// stages reports whether volumes are staged.
func (d *Driver) stages() bool {
	return d.declaresNode(csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME)
}

// attaches reports whether volumes are attached.
func (d *Driver) attaches() bool {
	return d.declaresController(csipb.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
}

// checkCapabilities checks that a call, its fields and its access modes are declared.
func (d *Driver) checkCapabilities(call *Call, service string) error {
	if missing := d.missingForCall(call.Method, service); missing != "" {
		d.violate(call, RuleCapability, "%s is not declared", missing)
		return status.Errorf(codes.Unimplemented, "%s is not declared", missing)
	}
	for _, missing := range d.missingForFields(call, service) {
		d.violate(call, RuleCapability, "%s is not declared", missing)
	}
	return nil
}

// missingForCall returns the missing capability of a method. Empty: none.
func (d *Driver) missingForCall(method Method, service string) string {
	if service == "csi.v1.Controller" && !d.declaresPlugin(csipb.PluginCapability_Service_CONTROLLER_SERVICE) {
		return "CONTROLLER_SERVICE"
	}
	if needed := nodeCapabilities[method]; needed != nil && !slices.ContainsFunc(needed, d.declaresNode) {
		return needed[0].String()
	}
	if needed, ok := controllerCapabilities[method]; ok && !d.declaresController(needed) {
		return needed.String()
	}
	return ""
}

// missingForFields returns the missing capabilities of the fields of a request.
func (d *Driver) missingForFields(call *Call, service string) (missing []string) {
	require := func(uses, isDeclared bool, capability string) {
		if uses && !isDeclared {
			missing = append(missing, capability)
		}
	}
	for _, capability := range volumeCapabilities(call.Request) {
		mode := capability.GetAccessMode().GetMode()
		isNew := mode == csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER || mode == csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		isDeclared := d.declaresNode(csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
		if service == "csi.v1.Controller" {
			isDeclared = d.declaresController(csipb.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER)
		}
		require(isNew, isDeclared, "SINGLE_NODE_MULTI_WRITER")
		require(capability.GetMount().GetVolumeMountGroup() != "", d.declaresNode(csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP), "VOLUME_MOUNT_GROUP")
	}
	switch r := call.Request.(type) {
	case *csipb.NodeGetVolumeStatsRequest:
		require(r.GetStagingTargetPath() != "", d.stages(), "STAGE_UNSTAGE_VOLUME")
	case *csipb.NodeExpandVolumeRequest:
		require(r.GetStagingTargetPath() != "", d.stages(), "STAGE_UNSTAGE_VOLUME")
	case *csipb.ControllerPublishVolumeRequest:
		require(r.GetReadonly(), d.declaresController(csipb.ControllerServiceCapability_RPC_PUBLISH_READONLY), "PUBLISH_READONLY")
	case *csipb.GetCapacityRequest:
		require(r.GetAccessibleTopology() != nil, d.declaresPlugin(csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS), "VOLUME_ACCESSIBILITY_CONSTRAINTS")
	case *csipb.CreateVolumeRequest:
		source := r.GetVolumeContentSource()
		require(source.GetVolume() != nil, d.declaresController(csipb.ControllerServiceCapability_RPC_CLONE_VOLUME), "CLONE_VOLUME")
		require(source.GetSnapshot() != nil, d.declaresController(csipb.ControllerServiceCapability_RPC_CREATE_DELETE_SNAPSHOT), "CREATE_DELETE_SNAPSHOT")
		require(r.GetAccessibilityRequirements() != nil, d.declaresPlugin(csipb.PluginCapability_Service_VOLUME_ACCESSIBILITY_CONSTRAINTS), "VOLUME_ACCESSIBILITY_CONSTRAINTS")
		require(len(r.GetMutableParameters()) > 0, d.declaresController(csipb.ControllerServiceCapability_RPC_MODIFY_VOLUME), "MODIFY_VOLUME")
	}
	return missing
}

// volumeCapabilities returns the volume capabilities of a request.
func volumeCapabilities(req any) []*csipb.VolumeCapability {
	switch r := req.(type) {
	case interface {
		GetVolumeCapabilities() []*csipb.VolumeCapability
	}:
		return r.GetVolumeCapabilities()
	case interface {
		GetVolumeCapability() *csipb.VolumeCapability
	}:
		if capability := r.GetVolumeCapability(); capability != nil {
			return []*csipb.VolumeCapability{capability}
		}
	}
	return nil
}
