package driver

import (
	"slices"
	"strconv"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A usage is the use of a volume that a capability describes.
type usage struct {
	block  bool
	fsType string
	flags  []string
	group  *int64 // of the files; nil: they keep theirs
	mode   csipb.VolumeCapability_AccessMode_Mode
}

// requireUsage parses a capability, and refuses one that no volume of the plugin has.
func (d *driver) requireUsage(at *field.Path, c *csipb.VolumeCapability) (u usage, err error) {
	u.mode = c.GetAccessMode().GetMode()
	switch {
	case c == nil:
		return u, field.Required(at, "the request needs it")
	case c.GetBlock() == nil && c.GetMount() == nil:
		return u, field.Required(at.Child("accessType"), "must be block or mount")
	case u.mode == csipb.VolumeCapability_AccessMode_UNKNOWN:
		return u, field.Required(at.Child("accessMode"), "the request needs it")
	case !slices.Contains(d.modes, u.mode):
		return u, volume.Invalid(at.Child("accessMode"), u.mode.String(), "the volumes of the driver have no such mode")
	case c.GetBlock() != nil && d.block == nil:
		return u, volume.Invalid(at.Child("accessType"), "block", "the driver has no raw devices")
	}
	if u.block = c.GetBlock() != nil; !u.block {
		err = d.parseMount(at, c.GetMount(), &u)
	}
	return u, err
}

// parseMount parses the fields of a mounted volume.
func (d *driver) parseMount(at *field.Path, m *csipb.VolumeCapability_MountVolume, u *usage) (err error) {
	u.fsType, u.flags = m.GetFsType(), m.GetMountFlags()
	size := 0
	for _, flag := range u.flags {
		size += len(flag)
	}
	switch reason := checkText(u.fsType, longestField); {
	case reason != "":
		return volume.Invalid(at.Child("fsType"), u.fsType, reason)
	case len(u.flags) > 0 && !d.hasOptions:
		return field.Forbidden(at.Child("mountFlags"), "the volumes of the driver have no mount options")
	case size > longestMap:
		return field.TooLongMaxLength(at.Child("mountFlags"), "", longestMap)
	}
	u.group, err = d.parseGroup(at.Child("volumeMountGroup"), m.GetVolumeMountGroup())
	return err
}

// parseGroup parses the group of the files of a volume. Nil: the request has none.
func (d *driver) parseGroup(at *field.Path, text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	if !d.config.MountGroup {
		return nil, volume.Invalid(at, text, "the driver does not declare VOLUME_MOUNT_GROUP")
	}
	group, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, volume.Invalid(at, text, "must be the number of a group")
	}
	return &group, volume.ValidateID(at, &group)
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

// record returns the usage as records have it, by which calls are compared. Secrets in mount options are no part:
// they change during the life of a volume.
func (u usage) record() usageRecord {
	flags := ""
	if len(u.flags) > 0 {
		bare := make([]string, len(u.flags))
		for i, flag := range u.flags {
			bare[i] = redaction.BareOption(flag)
		}
		flags = hexSum(strings.Join(bare, "\x00"))
	}
	return usageRecord{Block: u.block, FSType: u.fsType, Flags: flags, Mode: u.mode}
}

// equals compares two usages for one path.
func (r usageRecord) equals(other usageRecord) bool {
	return r.Block == other.Block && r.FSType == other.FSType && r.Flags == other.Flags && r.Mode == other.Mode
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
