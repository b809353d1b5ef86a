package csi

import (
	"path"
	"strings"

	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The names of directories, which are the kubelet's:
//
//	<root>/pods/<pod>/volumes/kubernetes.io~csi/<volume>/{mount,vol_data.json}
//	<root>/pods/<pod>/volumeDevices/kubernetes.io~csi/<volume>
//	<root>/plugins/kubernetes.io/csi/<driver>/<hash of the handle>/{globalmount,vol_data.json}
//	<root>/plugins/kubernetes.io/csi/volumeDevices/<volume>/{dev,data/vol_data.json}
//	<root>/plugins/kubernetes.io/csi/volumeDevices/staging/<volume>
//	<root>/plugins/kubernetes.io/csi/volumeDevices/publish/<volume>/<pod>
//
// and those of this package, for volumes at other paths and for the calls for block volumes:
//
//	<root>/plugins/kubernetes.io/csi/.targets/<hash of the path>/vol_data.json
//	<root>/plugins/kubernetes.io/csi/volumeDevices/<volume>/data/publish-<pod>.json
const (
	mountDir   = "mount"
	globalDir  = "globalmount"
	devicesDir = "volumeDevices"
	stagingDir = "staging"
	publishDir = "publish"
	devDir     = "dev"
	dataDir    = "data"
	targetsDir = ".targets" // no driver has such a name

	podDataPrefix = "publish-"
	podDataSuffix = ".json"
)

// A target is a path at which a driver publishes a volume, or stages it, with the file of its data.
type target struct {
	path string
	file string
	// own are the directories of the target alone, the innermost first.
	own []string
}

// ownDir returns the plugin's directory.
func (p *Plugin) ownDir() (string, error) {
	if p.host == nil {
		return "", errNotInitialised
	}
	return p.host.PluginDir(PluginName)
}

// podTarget returns the target of a pod's volume. The read-only view of a claim, which a kubelet
// does not have, is in its directory and not below it.
func (p *Plugin) podTarget(pod types.UID, name string) (target, error) {
	dir, err := p.host.PodVolumeDir(pod, PluginName, name)
	if err != nil {
		return target{}, err
	}
	if podvolume.IsView(name) {
		return p.otherTarget(dir)
	}
	return targetIn(dir), nil
}

func targetIn(dir string) target {
	return target{path: path.Join(dir, mountDir), file: path.Join(dir, voldata.FileName), own: []string{dir}}
}

// otherTarget returns the target at a path that is not the kubelet's.
func (p *Plugin) otherTarget(at string) (target, error) {
	own, err := p.ownDir()
	if err != nil {
		return target{}, err
	}
	dir := path.Join(own, targetsDir, hash(at))
	return target{path: at, file: path.Join(dir, voldata.FileName), own: []string{dir}}, nil
}

// targetAt returns the target at a path, which is validated: it must be below the host's root or one
// of its target directories, and not in the plugin's own directory.
func (p *Plugin) targetAt(at *field.Path, written string) (target, error) {
	clean, err := p.mounts.Below(at, written)
	if err != nil {
		return target{}, err
	}
	own, err := p.ownDir()
	if err != nil {
		return target{}, err
	}
	if clean == own || strings.HasPrefix(clean, own+"/") {
		return target{}, volume.Invalid(at, written, "is in the plugin's own directory")
	}
	if dir := path.Dir(clean); path.Base(clean) == mountDir && p.isPodVolumeDir(dir) {
		return targetIn(dir), nil
	}
	return p.otherTarget(clean)
}

// isPodVolumeDir reports whether a path is the directory of a pod's volume, and not of a view.
func (p *Plugin) isPodVolumeDir(dir string) bool {
	rest, ok := strings.CutPrefix(dir, p.host.Root()+"/")
	parts := strings.Split(rest, "/") // pods, UID, volumes, plugin, name
	if !ok || len(parts) != 5 || podvolume.IsView(parts[4]) {
		return false
	}
	known, err := p.host.PodVolumeDir(types.UID(parts[1]), PluginName, parts[4])
	return err == nil && known == dir
}

// stagingTarget returns the target at which a driver stages a volume that is mounted.
func (p *Plugin) stagingTarget(driver, handle string) (target, error) {
	own, err := p.ownDir()
	if err != nil {
		return target{}, err
	}
	return stagingIn(path.Join(own, driver, hash(handle))), nil
}

// stagingIn returns the target of the staged volume in a directory.
func stagingIn(dir string) target {
	return target{path: path.Join(dir, globalDir), file: path.Join(dir, voldata.FileName), own: []string{dir}}
}

// stagingTargetAt returns the target at the path of a device mount, which is validated, and the name
// of its driver.
func (p *Plugin) stagingTargetAt(at *field.Path, written string) (t target, driver string, err error) {
	clean, err := p.mounts.Below(at, written)
	if err != nil {
		return target{}, "", err
	}
	own, err := p.ownDir()
	if err != nil {
		return target{}, "", err
	}
	rest, ok := strings.CutPrefix(clean, own+"/")
	parts := strings.Split(rest, "/") // driver, hash, globalmount
	if !ok || len(parts) != 3 || parts[2] != globalDir || checkDriverName(at, parts[0]) != nil {
		return target{}, "", volume.Invalid(at, written, "is not the path of a staged volume")
	}
	return stagingIn(path.Dir(clean)), parts[0], nil
}

// devicePaths are the paths of a block volume.
type devicePaths struct {
	dir     string // of the volume
	dev     string // the global map path
	data    string // file
	staging string
	publish string // directory
}

// devicePaths returns the paths of a block volume whose name has been validated.
func (p *Plugin) devicePaths(name string) (devicePaths, error) {
	own, err := p.ownDir()
	if err != nil {
		return devicePaths{}, err
	}
	devices := path.Join(own, devicesDir)
	dir := path.Join(devices, name)
	return devicePaths{
		dir:     dir,
		dev:     path.Join(dir, devDir),
		data:    path.Join(dir, dataDir, voldata.FileName),
		staging: path.Join(devices, stagingDir, name),
		publish: path.Join(devices, publishDir, name),
	}, nil
}

// podData returns the file about the call that publishes the volume to a pod.
func (d devicePaths) podData(pod types.UID) string {
	return path.Join(path.Dir(d.data), podDataPrefix+string(pod)+podDataSuffix)
}
