package attach

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// csiID returns the unique name of a CSI volume.
func csiID(driver, handle string) v1.UniqueVolumeName {
	return util.GetUniqueVolumeName(csiPlugin, driver+"^"+handle)
}

// splitCSI returns the driver and the handle of the unique name of a CSI volume.
func splitCSI(id v1.UniqueVolumeName) (driver, handle string, ok bool) {
	name, isCSI := strings.CutPrefix(string(id), csiPlugin+"/")
	if !isCSI {
		return "", "", false
	}
	driver, handle, ok = strings.Cut(name, "^")
	return driver, handle, ok && driver != "" && handle != ""
}

// idOf returns the unique name of a persistent volume. ok is false for a volume that is never attached.
func (c *Controller) idOf(pv *v1.PersistentVolume) (id v1.UniqueVolumeName, ok bool) {
	if csi := pv.Spec.CSI; csi != nil {
		return csiID(csi.Driver, csi.VolumeHandle), csi.Driver != "" && csi.VolumeHandle != ""
	}
	return c.pluginID(volume.NewSpecFromPersistentVolume(pv, false))
}

// inlineID returns the unique name of a volume in the spec of a pod.
func (c *Controller) inlineID(vol *v1.Volume) (id v1.UniqueVolumeName, ok bool) {
	if vol.PersistentVolumeClaim != nil || vol.Ephemeral != nil || vol.CSI != nil {
		return "", false
	}
	return c.pluginID(volume.NewSpecFromVolume(vol))
}

// pluginID returns the unique name of a volume that a plugin attaches.
func (c *Controller) pluginID(spec *volume.Spec) (id v1.UniqueVolumeName, ok bool) {
	if c.config.Plugins == nil {
		return "", false
	}
	plugin, err := c.config.Plugins.FindPluginBySpec(spec)
	if err != nil {
		return "", false
	}
	if _, ok := volume.As[volume.AttachableVolumePlugin](plugin); !ok {
		return "", false
	}
	name, err := plugin.GetVolumeName(spec)
	if err != nil || name == "" {
		return "", false
	}
	return util.GetUniqueVolumeName(plugin.GetPluginName(), name), true
}

// isOurs reports whether this controller attaches volumes with such a unique name.
func (c *Controller) isOurs(id v1.UniqueVolumeName) bool {
	if _, _, ok := splitCSI(id); ok {
		return true
	}
	_, ok := c.attachPlugin(id)
	return ok
}

// attachPlugin returns the plugin of a volume that a plugin attaches.
func (c *Controller) attachPlugin(id v1.UniqueVolumeName) (plugin volume.AttachableVolumePlugin, ok bool) {
	name, _, err := util.SplitUniqueName(id)
	if err != nil || name == csiPlugin || c.config.Plugins == nil {
		return nil, false
	}
	plugin, ok, err = volume.FindByName[volume.AttachableVolumePlugin](c.config.Plugins, name)
	return plugin, ok && err == nil
}

// isExclusive reports whether one node may have a volume at a time.
func isExclusive(pv *v1.PersistentVolume) bool {
	modes := pv.Spec.AccessModes
	return len(modes) > 0 && !slices.Contains(modes, v1.ReadWriteMany) && !slices.Contains(modes, v1.ReadOnlyMany)
}

// volumeNameOf returns the name of the persistent volume of a VolumeAttachment, or "".
func volumeNameOf(va *storagev1.VolumeAttachment) string {
	if va.Spec.Source.PersistentVolumeName == nil {
		return ""
	}
	return *va.Spec.Source.PersistentVolumeName
}

// idOfAttachment returns the unique name of the volume of a VolumeAttachment, by the persistent volume that
// it names. ok is false if the cache has no such volume of the driver.
func (c *Controller) idOfAttachment(va *storagev1.VolumeAttachment) (id v1.UniqueVolumeName, ok bool) {
	pv, ok := c.volumes.Cache().Get(api.Key{Name: volumeNameOf(va)})
	if !ok || pv.Spec.CSI == nil || pv.Spec.CSI.Driver != va.Spec.Attacher {
		return "", false
	}
	return c.idOf(pv)
}

// isNamedFor reports whether a VolumeAttachment has the name of a CSI volume on its node.
func isNamedFor(va *storagev1.VolumeAttachment, id v1.UniqueVolumeName) bool {
	driver, handle, ok := splitCSI(id)
	return ok && va.Spec.Attacher == driver && va.Name == attachmentName(driver, handle, types.NodeName(va.Spec.NodeName))
}

// isEarlier reports whether a VolumeAttachment of the persistent volume with the unique name id was made for an
// earlier persistent volume of the same name: a controller has named it, for another volume.
func isEarlier(va *storagev1.VolumeAttachment, id v1.UniqueVolumeName) bool {
	digits, ok := strings.CutPrefix(va.Name, attachmentPrefix)
	sum, err := hex.DecodeString(digits)
	return ok && err == nil && len(sum) == sha256.Size && !isNamedFor(va, id)
}
