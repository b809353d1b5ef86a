package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The ID of a created volume is
//
//	v1-<digest>-<name>
//
// with the name of the persistent volume and a digest of the source in the volume context. Other IDs are
// those of volumes that an administrator describes by a volume context.
const (
	idPrefix     = "v1-"
	digestLength = 16 // hexadecimal digits
	sumLength    = 40 // hexadecimal digits
	longestName  = 63
)

// The beginnings of names that have a digest in place of a requested name or of an ID.
const (
	hashedPrefix = "volume-"
	staticPrefix = "static-"
)

// A volumeID is a parsed ID.
type volumeID struct {
	text   string
	name   string // of the persistent volume
	digest string // of the source; empty: the ID is not of a created volume
}

// newVolumeID returns the ID of a created volume.
func newVolumeID(name, source string) volumeID {
	digest := hexSum(source)[:digestLength]
	return volumeID{text: idPrefix + digest + "-" + name, name: name, digest: digest}
}

// parseID parses any ID: one of another form is that of a static volume.
func parseID(text string) volumeID {
	if rest, ok := strings.CutPrefix(text, idPrefix); ok && len(rest) > digestLength {
		digest, after := rest[:digestLength], rest[digestLength:]
		if name, ok := strings.CutPrefix(after, "-"); ok && isHex(digest) && isVolumeName(name) {
			return volumeID{text, name, digest}
		}
	}
	return volumeID{text: text, name: staticPrefix + hexSum(text)[:sumLength]}
}

// isOf reports whether the ID is that of a volume with this source.
func (id volumeID) isOf(source string) bool {
	return id.digest == "" || id.digest == hexSum(source)[:digestLength]
}

// volumeName returns the name of the persistent volume for a requested name: the name itself if a
// persistent volume can have it. Different requests have different names.
func volumeName(requested string) string {
	if isVolumeName(requested) && !isHashed(requested) {
		return requested
	}
	return hashedPrefix + hexSum(requested)[:sumLength]
}

// isVolumeName accepts the names that volumeName returns, and no name of a static volume.
func isVolumeName(name string) bool {
	return len(name) <= longestName && len(validation.IsDNS1123Subdomain(name)) == 0 && !strings.HasPrefix(name, staticPrefix)
}

func isHashed(name string) bool {
	sum, ok := strings.CutPrefix(name, hashedPrefix)
	return ok && len(sum) == sumLength && isHex(sum)
}

func hexSum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func isHex(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("0123456789abcdef", r) }) < 0
}
