package csi

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// nameSeparator separates driver and handle in the name of a volume. No driver's name has it.
const nameSeparator = "^"

// volumeName returns the name of a volume, see Plugin.GetVolumeName.
func volumeName(driver, handle string) string { return driver + nameSeparator + handle }

// splitVolumeName is the reverse of volumeName.
func splitVolumeName(name string) (driver, handle string, ok bool) {
	return strings.Cut(name, nameSeparator)
}

// hash returns the SHA-256 of a text in hexadecimal digits.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// inlineHandle returns the handle of an inline volume. The pod's UID is unique in time and space.
func inlineHandle(pod types.UID, name string) string { return "csi-" + hash(string(pod)+name) }

// attachmentName returns the name of the VolumeAttachment of a volume on a node.
func attachmentName(driver, handle string, node types.NodeName) string {
	return "csi-" + hash(handle+driver+string(node))
}
