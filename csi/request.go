package csi

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/accessmode"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// An upRequest is a request that stages or publishes a volume.
type upRequest interface {
	proto.Message
	GetVolumeId() string
	GetStagingTargetPath() string
	GetVolumeCapability() *csipb.VolumeCapability
	GetVolumeContext() map[string]string
}

// mountCapability returns the capability of calls for a volume that is mounted. A group is that of
// VOLUME_MOUNT_GROUP; a label is an SELinux label to mount with.
func (s source) mountCapability(caps capabilities, group *int64, label string) *csipb.VolumeCapability {
	flags := s.options
	if label != "" {
		flags = append(flags[:len(flags):len(flags)], labelOption(label))
	}
	m := &csipb.VolumeCapability_MountVolume{FsType: s.fsType, MountFlags: flags}
	if group != nil && caps.mountGroup {
		m.VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	return &csipb.VolumeCapability{
		AccessMode: accessmode.Of(s.mode, caps.singleNodeMultiWriter),
		AccessType: &csipb.VolumeCapability_Mount{Mount: m},
	}
}

// labelOption returns the mount option of an SELinux label. Quotes keep the commas of a label, as of
// s0:c15,c25, from separating options.
func labelOption(label string) string { return fmt.Sprintf("context=%q", label) }

func (s source) blockCapability(caps capabilities) *csipb.VolumeCapability {
	return &csipb.VolumeCapability{
		AccessMode: accessmode.Of(s.mode, caps.singleNodeMultiWriter),
		AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}},
	}
}

// merged returns a map with the entries of all maps, of which later ones win; nil if there are none.
func merged(all ...map[string]string) map[string]string {
	var result map[string]string
	for _, m := range all {
		if len(m) > 0 && result == nil {
			result = make(map[string]string, len(m))
		}
		maps.Copy(result, m)
	}
	return result
}

// withoutSecrets returns a copy of a request without secrets and tokens, and without the secrets in mount
// flags.
func withoutSecrets[R upRequest](request R) R {
	bare := proto.Clone(request).(R)
	setSecrets(bare, nil)
	for flags, i := mountFlags(bare), 0; i < len(flags); i++ {
		flags[i] = redaction.Option(flags[i])
	}
	delete(bare.GetVolumeContext(), tokensKey)
	return bare
}

// withSecretsOf adds the secrets and tokens of a request to a recorded one, which has none: they may
// have changed since, and a call with old ones could never succeed.
func withSecretsOf[R upRequest](recorded, from R) R {
	request := proto.Clone(recorded).(R)
	setSecrets(request, secretsIn(from))
	if mount := request.GetVolumeCapability().GetMount(); mount != nil {
		mount.MountFlags = withFlagSecrets(mount.MountFlags, mountFlags(from))
	}
	if token, ok := from.GetVolumeContext()[tokensKey]; ok {
		setVolumeContext(request, merged(request.GetVolumeContext(), map[string]string{tokensKey: token}))
	}
	return request
}

func mountFlags(request upRequest) []string {
	return request.GetVolumeCapability().GetMount().GetMountFlags()
}

// withFlagSecrets adds the secrets of mount flags to recorded ones, which have none. Recorded flags with other
// secrets cannot be restored: the flags of the request take their place.
func withFlagSecrets(recorded, from []string) []string {
	known := make(map[string]string, len(from))
	for _, flag := range from {
		known[redaction.Option(flag)] = flag
	}
	flags := slices.Clone(recorded)
	for i, flag := range recorded {
		if whole, ok := known[flag]; ok {
			flags[i] = whole
		} else if redaction.IsRedacted(flag) {
			return slices.Clone(from)
		}
	}
	return flags
}

func secretsIn(request upRequest) map[string]string {
	switch r := request.(type) {
	case *csipb.NodeStageVolumeRequest:
		return r.Secrets
	case *csipb.NodePublishVolumeRequest:
		return r.Secrets
	}
	return nil
}

func setSecrets(request upRequest, secrets map[string]string) {
	switch r := request.(type) {
	case *csipb.NodeStageVolumeRequest:
		r.Secrets = secrets
	case *csipb.NodePublishVolumeRequest:
		r.Secrets = secrets
	}
}

func setVolumeContext(request upRequest, values map[string]string) {
	switch r := request.(type) {
	case *csipb.NodeStageVolumeRequest:
		r.VolumeContext = values
	case *csipb.NodePublishVolumeRequest:
		r.VolumeContext = values
	}
}

// encode returns a request without secrets, for the file of its volume. Equal requests have equal
// encodings.
func encode(request upRequest) ([]byte, error) {
	if _, hasTokens := request.GetVolumeContext()[tokensKey]; hasTokens || len(secretsIn(request)) > 0 || len(mountFlags(request)) > 0 {
		request = withoutSecrets(request)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(request)
}

// decode returns a recorded request, or false for one that is not for the same volume and paths as
// the wanted request: the file is untrusted.
//
// The staging path of a call that publishes may be missing, or be the staging path of the volume: the
// capabilities of the driver may have changed since.
func decode[R upRequest](text []byte, wanted R, staging string) (recorded R, ok bool) {
	recorded = proto.Clone(wanted).(R)
	proto.Reset(recorded)
	if len(text) == 0 || proto.Unmarshal(text, recorded) != nil {
		return recorded, false
	}
	return withoutSecrets(recorded), recorded.GetVolumeId() == wanted.GetVolumeId() &&
		isStagingOf(recorded, wanted, staging) &&
		recorded.GetVolumeCapability() != nil && targetOf(recorded) == targetOf(wanted)
}

// isStagingOf reports whether the staging path of a recorded request is one of the wanted request.
func isStagingOf(recorded, wanted upRequest, staging string) bool {
	have := recorded.GetStagingTargetPath()
	return have == wanted.GetStagingTargetPath() || targetOf(wanted) != "" && (have == "" || have == staging)
}

// targetOf returns the path at which a request publishes a volume.
func targetOf(request upRequest) string {
	if r, ok := request.(*csipb.NodePublishVolumeRequest); ok {
		return r.TargetPath
	}
	return ""
}

// isReadOnly reports whether a request publishes read-only.
func isReadOnly(request upRequest) bool {
	r, ok := request.(*csipb.NodePublishVolumeRequest)
	return ok && r.Readonly
}

// isSameUse reports whether a volume that was brought up by one request serves the other one. The group
// of a staged volume is that of the first pod. The driver may have gained or lost capabilities since:
// requests of the same use have other access modes then, and only one of them has a group.
func isSameUse(have, want upRequest) bool {
	if have == want {
		return true // no earlier request
	}
	a, b := proto.Clone(have.GetVolumeCapability()).(*csipb.VolumeCapability), proto.Clone(want.GetVolumeCapability()).(*csipb.VolumeCapability)
	_, stage := want.(*csipb.NodeStageVolumeRequest)
	if stage || groupIn(have) == "" || groupIn(want) == "" {
		for _, m := range []*csipb.VolumeCapability_MountVolume{a.GetMount(), b.GetMount()} {
			if m != nil {
				m.VolumeMountGroup = ""
			}
		}
	}
	if !accessmode.IsSame(a.GetAccessMode().GetMode(), b.GetAccessMode().GetMode()) {
		return false
	}
	a.AccessMode, b.AccessMode = nil, nil
	return isReadOnly(have) == isReadOnly(want) && proto.Equal(a, b)
}

// groupIn returns the group that a request asks the driver to apply.
func groupIn(request upRequest) string {
	return request.GetVolumeCapability().GetMount().GetVolumeMountGroup()
}

// checkLabel validates an SELinux label, and refuses one for a driver that does not mount with labels.
func checkLabel(label string, policy driverPolicy) error {
	if label == "" {
		return nil
	}
	if !policy.seLinuxMount {
		return fmt.Errorf("SELinuxLabel for a driver without seLinuxMount: %w", volume.ErrNotSupported)
	}
	return checkSELinuxText(field.NewPath("args", "seLinuxLabel"), label)
}
