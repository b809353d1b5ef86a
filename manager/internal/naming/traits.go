package naming

import (
	"context"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// Traits are the abilities of a plugin for a volume.
type Traits struct {
	Attachable      bool   // attached before it is mounted
	DeviceMountable bool   // mounted once for all pods
	Block           bool   // a device: mapped instead of mounted, after one set-up for all pods
	OnePod          bool   // in one pod at a time
	Renewable       bool   // set up again before a container starts: it may have been replaced on the node
	Remount         bool   // set up again periodically: its content follows an object of the API
	Backend         string // the server or device that it shares with other volumes; empty: none
}

// OneName reports whether all pods use the volume by one unique name.
func (t Traits) OneName() bool { return t.Shared() || t.OnePod }

// Shared reports whether the volume has shared steps, which need a record.
func (t Traits) Shared() bool { return t.Attachable || t.OnDevice() }

// OnDevice reports whether the volume has a device mount or a set-up block device.
func (t Traits) OnDevice() bool { return t.DeviceMountable || t.Block }

// TraitsOf queries the plugin for the traits of a volume. It returns an error of the plugin,
// because a guess could detach a volume in use.
func TraitsOf(ctx context.Context, plugin volume.VolumePlugin, spec *volume.Spec) (Traits, error) {
	t := Traits{OnePod: onePodOnly(spec)}
	var err error
	if p, ok := volume.As[volume.AttachableVolumePlugin](plugin); ok {
		if t.Attachable, err = p.CanAttach(ctx, spec); err != nil {
			return t, err
		}
	}
	if spec.IsBlock() {
		t.Block = true
		if _, ok := volume.As[volume.BlockVolumePlugin](plugin); !ok {
			return t, fmt.Errorf("block volume of plugin %s: %w", plugin.GetPluginName(), volume.ErrNotSupported)
		}
	} else if p, ok := volume.As[volume.DeviceMountableVolumePlugin](plugin); ok {
		if t.DeviceMountable, err = p.CanDeviceMount(ctx, spec); err != nil {
			return t, err
		}
	}
	if p, ok := volume.As[volume.RemountVolumePlugin](plugin); ok {
		t.Remount = p.RequiresRemount(spec)
	}
	if p, ok := volume.As[volume.RenewableVolumePlugin](plugin); ok {
		t.Renewable = p.IsRenewable(spec)
	}
	if p, ok := volume.As[volume.BackendVolumePlugin](plugin); ok {
		if t.Backend, err = p.GetBackendName(spec); err != nil {
			return t, err
		}
	}
	return t, nil
}

// onePodOnly reports whether the volume's only access mode is ReadWriteOncePod.
func onePodOnly(spec *volume.Spec) bool {
	pv := spec.PersistentVolume
	return pv != nil && slices.Equal(pv.Spec.AccessModes, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod})
}
