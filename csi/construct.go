package csi

import (
	"context"
	"fmt"
	"path"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/accessmode"
	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/redaction"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec recovers a volume from vol_data.json, which may be of a kubelet. mountPath is the
// directory of the pod's volume, or the path of the volume in it. Driver and handle are recovered, and
// of a call of this package the file system, the access mode, the mount options and whether the volume
// is read-only.
//
// A volume with a file may be published, mounted or not. A missing or broken file of a mounted volume
// is repaired by the mount table; if that is not possible the error is uncertain, and wraps
// [ErrUnknownVolume]. So is that of a broken file without a mount. Without file and mount the volume is not
// up: empty directories are removed, and the error wraps [volume.ErrNotMounted].
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (_ volume.ReconstructedVolume, err error) {
	defer brief.Shorten(&err)
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return volume.ReconstructedVolume{}, err
	}
	t, err := p.targetOf(mountPath)
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	if ctx.Err() != nil {
		return volume.ReconstructedVolume{}, volume.AsTransient(ctxend.Error(ctx))
	}
	found := make(chan voldata.Data, 1)
	err = p.mounts.Exclusively(ctx, t.path, func(ctx context.Context, _ string) error {
		data, err := p.dataOf(ctx, t)
		found <- data
		return err
	})
	if err != nil {
		return volume.ReconstructedVolume{}, err
	}
	data := <-found
	if data.SpecVolumeID != volumeName {
		return volume.ReconstructedVolume{}, volume.AsUncertain(fmt.Errorf("%s: %w %s", t.file, errOtherVolume, input.Quote(data.SpecVolumeID)))
	}
	return volume.ReconstructedVolume{Spec: specOf(data, nil), SELinuxMountContext: data.SELinux}, nil
}

// targetOf returns the target of a pod's volume by its directory, or by its path.
func (p *Plugin) targetOf(written string) (target, error) {
	if p.host == nil {
		return target{}, errNotInitialised
	}
	at := field.NewPath("mountPath")
	clean, err := p.mounts.Below(at, written)
	if err != nil {
		return target{}, err
	}
	if p.isPodVolumeDir(clean) {
		return targetIn(clean), nil
	}
	return p.targetAt(at, clean)
}

// podVolumesDir returns the directory of the volumes of a pod.
func (p *Plugin) podVolumesDir(pod string) (string, error) {
	dir, err := p.host.PodVolumeDir(types.UID(pod), PluginName, "volume")
	return path.Dir(dir), err
}

// specOf returns the specification of a volume; block has the data of the call that publishes a device,
// and is nil for a volume that is mounted.
func specOf(data voldata.Data, block *voldata.Data) *volume.Spec {
	call := data.Call
	if block != nil {
		call = block.Call
	}
	recorded := recordedUse(call)
	if data.LifecycleMode == voldata.Ephemeral {
		v := &v1.Volume{Name: data.SpecVolumeID, VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: data.DriverName}}}
		if recorded.fsType != "" {
			v.CSI.FSType = &recorded.fsType
		}
		if recorded.readOnly {
			v.CSI.ReadOnly = &recorded.readOnly
		}
		return volume.NewSpecFromVolume(v)
	}
	mode := v1.PersistentVolumeFilesystem
	if block != nil {
		mode = v1.PersistentVolumeBlock
	}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: data.SpecVolumeID},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{
				Driver: data.DriverName, VolumeHandle: data.VolumeHandle, FSType: recorded.fsType,
			}},
			VolumeMode: &mode, AccessModes: recorded.modes, MountOptions: recorded.optionsWithout(data.SELinux),
		},
	}
	return volume.NewSpecFromPersistentVolume(pv, recorded.readOnly)
}

// A use is the part of a recorded call that a specification has. Mount options with secrets are omitted.
type use struct {
	fsType   string
	options  []string
	modes    []v1.PersistentVolumeAccessMode
	readOnly bool
}

// recordedUse returns the use of a recorded call that publishes a volume; the zero value without one. The
// file is untrusted: a call that a specification cannot have is ignored.
func recordedUse(call *voldata.Call) (is use) {
	request := new(csipb.NodePublishVolumeRequest)
	if call == nil || len(call.Request) == 0 || proto.Unmarshal(call.Request, request) != nil {
		return use{}
	}
	capability := request.GetVolumeCapability()
	is.fsType, is.readOnly = capability.GetMount().GetFsType(), request.GetReadonly()
	is.options = slices.DeleteFunc(mountFlags(withoutSecrets(request)), redaction.IsRedacted)
	if checkText(nil, is.fsType, maxText) != nil || checkOptions(nil, is.options) != nil {
		return use{}
	}
	if mode, ok := modeOf(capability.GetAccessMode().GetMode()); ok {
		is.modes = []v1.PersistentVolumeAccessMode{mode}
	}
	return is
}

// modeOf is the reverse of accessMode. ReadWriteOnce and ReadWriteOncePod can be the same mode of a call:
// then the result is ReadWriteOnce.
func modeOf(mode csipb.VolumeCapability_AccessMode_Mode) (v1.PersistentVolumeAccessMode, bool) {
	for _, candidate := range []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadOnlyMany, v1.ReadWriteMany, v1.ReadWriteOncePod} {
		for _, single := range []bool{false, true} {
			if accessmode.Of(candidate, single).Mode == mode {
				return candidate, true
			}
		}
	}
	return "", false
}

// optionsWithout returns the mount options without that of an SELinux label.
func (u use) optionsWithout(label string) []string {
	return slices.DeleteFunc(slices.Clone(u.options), func(option string) bool {
		return label != "" && option == labelOption(label)
	})
}

// GetLeftoverScope implements [volume.LeftoverVolumePlugin], by the file of the volume.
func (p *Plugin) GetLeftoverScope(_ context.Context, dir volume.LeftoverDir) (volume.LeftoverScope, error) {
	t, err := p.leftoverTarget(dir)
	if err != nil {
		return volume.LeftoverScope{}, err
	}
	data, err := p.readData(t)
	if err != nil {
		return volume.LeftoverScope{}, err
	}
	scope := volume.LeftoverScope{Driver: data.DriverName}
	if data.LifecycleMode != voldata.Ephemeral {
		scope.VolumeName = volumeName(data.DriverName, data.VolumeHandle)
	}
	return scope, nil
}

func (p *Plugin) leftoverTarget(dir volume.LeftoverDir) (target, error) {
	if !dir.Block {
		return p.targetOf(dir.Path)
	}
	if err := checkBlockName(field.NewPath("volumeName"), dir.VolumeName); err != nil {
		return target{}, err
	}
	paths, err := p.devicePaths(dir.VolumeName)
	return target{file: paths.data}, err
}
