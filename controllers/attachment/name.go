package attachment

import "strings"

const (
	// NodeIDAnnotation of a VolumeAttachment is the node ID that the driver attaches the volume with. It
	// is written before the first call of the driver, as the sidecar external-attacher does.
	NodeIDAnnotation = "csi.alpha.kubernetes.io/node-id"
	// VolumeHandleAnnotation of a VolumeAttachment is the handle of the CSI volume that the driver attaches,
	// or the hash of a long one. It names the volume for a detach after the end of the PersistentVolume, or
	// after another volume has taken its name.
	VolumeHandleAnnotation = "attachment.volumekit.io/volume-handle"
)

// Reasons of events.
const (
	reasonAttachFailed = "FailedAttachVolume"
	reasonDetachFailed = "FailedDetachVolume"
	reasonLost         = "AttachmentLost"
	reasonUnexpected   = "UnexpectedAttachment"
)

// Values of the label operation_name of manager.OperationDuration.
const (
	operationAttach = "volume_attach"
	operationDetach = "volume_detach"
	operationList   = "volume_list_attached"
)

// Limits of the API server and of the CSI specification, in bytes.
const (
	mostNodeID   = 256
	mostMetadata = 256 << 10
)

// Finalizer returns the finalizer of a driver for VolumeAttachments and PersistentVolumes, which is that of
// the sidecar external-attacher.
func Finalizer(driver string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, driver)
	if strings.HasSuffix(name, "-") {
		name += "X" // a finalizer ends with a letter or a digit
	}
	return "external-attacher/" + name
}
