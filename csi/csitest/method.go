package csitest

import (
	"path"
)

// A Method is a method of a CSI service.
type Method string

// The methods that a [Driver] implements.
const (
	GetPluginInfo         Method = "GetPluginInfo"
	GetPluginCapabilities Method = "GetPluginCapabilities"
	Probe                 Method = "Probe"

	CreateVolume               Method = "CreateVolume"
	DeleteVolume               Method = "DeleteVolume"
	ControllerPublishVolume    Method = "ControllerPublishVolume"
	ControllerUnpublishVolume  Method = "ControllerUnpublishVolume"
	ValidateVolumeCapabilities Method = "ValidateVolumeCapabilities"
	ListVolumes                Method = "ListVolumes"
	GetCapacity                Method = "GetCapacity"
	ControllerGetCapabilities  Method = "ControllerGetCapabilities"
	ControllerExpandVolume     Method = "ControllerExpandVolume"
	ControllerModifyVolume     Method = "ControllerModifyVolume"
	ControllerGetVolume        Method = "ControllerGetVolume"

	NodeStageVolume     Method = "NodeStageVolume"
	NodeUnstageVolume   Method = "NodeUnstageVolume"
	NodePublishVolume   Method = "NodePublishVolume"
	NodeUnpublishVolume Method = "NodeUnpublishVolume"
	NodeGetVolumeStats  Method = "NodeGetVolumeStats"
	NodeExpandVolume    Method = "NodeExpandVolume"
	NodeGetCapabilities Method = "NodeGetCapabilities"
	NodeGetInfo         Method = "NodeGetInfo"
)

// methodOf returns the method of a name such as "/csi.v1.Node/NodeStageVolume", and its service.
func methodOf(fullMethod string) (method Method, service string) {
	return Method(path.Base(fullMethod)), path.Base(path.Dir(fullMethod))
}
