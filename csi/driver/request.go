package driver

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Limits of the specification, and of Linux for paths.
const (
	longestMap  = 4 << 10
	longestPath = 4095
)

// checkText returns why a text of a request is refused, or "".
func checkText(text string, longest int) string {
	switch {
	case len(text) > longest:
		return fmt.Sprintf("must be at most %d bytes", longest)
	case !utf8.ValidString(text):
		return "must be UTF-8"
	case strings.ContainsFunc(text, isBanned):
		return "must not contain control characters"
	}
	return ""
}

// isBanned reports a control character that the specification bans from names.
func isBanned(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r <= 0x9f
}

// requireText refuses an empty or an invalid text.
func requireText(at *field.Path, text string, longest int) error {
	if text == "" {
		return field.Required(at, "the request needs it")
	}
	if reason := checkText(text, longest); reason != "" {
		return volume.Invalid(at, text, reason)
	}
	return nil
}

// requireID parses the ID in a request.
func requireID(text string) (volumeID, error) {
	if err := requireText(field.NewPath("volumeID"), text, longestField); err != nil {
		return volumeID{}, err
	}
	return parseID(text), nil
}

// requirePath returns the shortest spelling of an absolute path. Whether it is in a directory for
// volumes is a question for the plugin.
func requirePath(at *field.Path, text string) (string, error) {
	if err := requireText(at, text, longestPath); err != nil {
		return "", err
	}
	switch {
	case !path.IsAbs(text):
		return "", volume.Invalid(at, text, "must be absolute")
	case slices.Contains(strings.Split(text, "/"), ".."):
		return "", volume.Invalid(at, text, `must not contain ".."`)
	}
	return path.Clean(text), nil
}

// checkMap refuses a map that is larger than the specification allows.
func checkMap(at *field.Path, m map[string]string) error {
	size := 0
	for key, value := range m {
		size += len(key) + len(value)
	}
	if size > longestMap {
		return field.TooLongMaxLength(at, "", longestMap)
	}
	return nil
}

// A usage is the use of a volume that a capability describes.
type usage struct {
	block  bool
	fsType string
	flags  []string
	mode   csipb.VolumeCapability_AccessMode_Mode
}

// requireUsage parses a capability, and refuses one that no volume of the plugin has.
func (d *driver) requireUsage(at *field.Path, c *csipb.VolumeCapability) (u usage, err error) {
	switch {
	case c == nil:
		return u, field.Required(at, "the request needs it")
	case c.GetBlock() != nil:
		u.block = true
	case c.GetMount() == nil:
		return u, field.Required(at.Child("accessType"), "must be block or mount")
	}
	u.mode, u.fsType, u.flags = c.GetAccessMode().GetMode(), c.GetMount().GetFsType(), c.GetMount().GetMountFlags()
	size := 0
	for _, flag := range u.flags {
		size += len(flag)
	}
	switch {
	case u.mode == csipb.VolumeCapability_AccessMode_UNKNOWN:
		return u, field.Required(at.Child("accessMode"), "the request needs it")
	case !slices.Contains(d.modes, u.mode):
		return u, volume.Invalid(at.Child("accessMode"), u.mode.String(), "the volumes of the driver have no such mode")
	case u.block && d.block == nil:
		return u, volume.Invalid(at.Child("accessType"), "block", "the driver has no raw devices")
	case c.GetMount().GetVolumeMountGroup() != "":
		return u, volume.Invalid(at.Child("volumeMountGroup"), c.GetMount().GetVolumeMountGroup(), "the driver does not declare VOLUME_MOUNT_GROUP")
	case checkText(u.fsType, longestField) != "":
		return u, volume.Invalid(at.Child("fsType"), u.fsType, checkText(u.fsType, longestField))
	case len(u.flags) > 0 && !d.hasOptions:
		return u, field.Forbidden(at.Child("mountFlags"), "the volumes of the driver have no mount options")
	case size > longestMap:
		return u, field.TooLongMaxLength(at.Child("mountFlags"), "", longestMap)
	}
	return u, nil
}

// requireUsages parses the capabilities of a volume, of which there must be one at least. All must have
// the access type, and the file system, of the first.
func (d *driver) requireUsages(cs []*csipb.VolumeCapability) (usages []usage, err error) {
	at := field.NewPath("volumeCapabilities")
	if len(cs) == 0 {
		return nil, field.Required(at, "the request needs one")
	}
	for i, c := range cs {
		u, err := d.requireUsage(at.Index(i), c)
		if err != nil {
			return nil, err
		}
		if i > 0 && (u.block != usages[0].block || u.fsType != usages[0].fsType) {
			return nil, volume.Invalid(at.Index(i), "", "the access types and file systems of a volume must be equal")
		}
		usages = append(usages, u)
	}
	return usages, nil
}

func (u usage) record() usageRecord {
	flags := ""
	if len(u.flags) > 0 {
		flags = hexSum(strings.Join(u.flags, "\x00"))
	}
	return usageRecord{Block: u.block, FSType: u.fsType, Flags: flags, Mode: u.mode}
}

// equals compares two usages for one path.
func (r usageRecord) equals(other usageRecord) bool {
	return r.Block == other.Block && r.FSType == other.FSType && r.Flags == other.Flags && r.Mode == other.Mode
}

// requireRange returns the requested sizes. The default is that of a request without a range.
func requireRange(r *csipb.CapacityRange, byDefault int64) (required, limit int64, err error) {
	required, limit = r.GetRequiredBytes(), r.GetLimitBytes()
	at := field.NewPath("capacityRange")
	switch {
	case required < 0:
		return 0, 0, field.Invalid(at.Child("requiredBytes"), required, "must be at least 0")
	case limit < 0:
		return 0, 0, field.Invalid(at.Child("limitBytes"), limit, "must be at least 0")
	case limit > 0 && required > limit:
		return 0, 0, coded(codes.OutOfRange, field.Invalid(at.Child("requiredBytes"), required, fmt.Sprintf("is more than the limit, %d", limit)))
	case required == 0 && limit > 0:
		required = min(byDefault, limit)
	case required == 0:
		required = byDefault
	}
	return required, limit, nil
}

// spec returns the volume for a usage.
func (v described) spec(u usage) (*volume.Spec, error) {
	pv, err := v.persistentVolume()
	if err != nil {
		return nil, err
	}
	u.apply(pv)
	return volume.NewSpecFromPersistentVolume(pv, isReadOnly(u.mode)), nil
}

// apply sets the fields of a volume that a usage determines.
func (u usage) apply(pv *v1.PersistentVolume) {
	mode := v1.PersistentVolumeFilesystem
	if u.block {
		mode = v1.PersistentVolumeBlock
	}
	pv.Spec.VolumeMode = &mode
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{pvModes[u.mode]}
	pv.Spec.MountOptions = slices.Clone(u.flags)
	setFSType(&pv.Spec.PersistentVolumeSource, u.fsType)
}
