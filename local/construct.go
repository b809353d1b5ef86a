package local

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errNoOrigin reports that the mounted directory is not found below the roots.
var errNoOrigin = errors.New("the mounted path is not below one of the plugin's roots")

// ConstructVolumeSpec recovers the path of the directory that is mounted at mountPath, and
// its flags as mount options, from the mount table: all flags, so that a SetUp with the
// specification finds the mount as requested, independent of the directory's own mount.
//
// A path that is not below the host's root is a [*field.Error]. If nothing is mounted there
// the error wraps [volume.ErrNotMounted]; if the mounted directory cannot be found below the
// roots, or its path does not lead to it as written, [volume.ErrUncertain]. Of a directory that
// was removed on the node it is the last path.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (volume.ReconstructedVolume, error) {
	spec, err := p.constructSpec(ctx, volumeName, mountPath)
	return volume.ReconstructedVolume{Spec: spec}, err
}

func (p *Plugin) constructSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return nil, err
	}
	if p.host == nil {
		return nil, errNotInitialised
	}
	at, view, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return nil, err
	}
	if shared, name, ok := p.deviceOrigin(view, at.Mountpoint); ok {
		return queryInTime(ctx, p, at.Mountpoint, func() (*volume.Spec, error) { return p.deviceSpec(volumeName, name, at, shared) })
	}
	source, there, ok := p.origin(view, at.Mountpoint)
	if !ok && at.Deleted {
		source, there, ok = p.removedOrigin(view, at)
	}
	if !ok {
		return nil, volume.AsUncertain(fmt.Errorf("%s: %w", mountPath, errNoOrigin))
	}
	return specFor(volumeName, source, util.BindOptions(at.Flags, there), at.Flags&mount.ReadOnly != 0), nil
}

// origin returns the path in the specification of the volume at mountPath, and the flags of
// the mount that contains that path.
func (p *Plugin) origin(view *mount.View, mountPath string) (path string, flags mount.Flags, ok bool) {
	for _, r := range p.roots {
		for origin := range view.OriginsBelow(mountPath, r.resolved) {
			if path, ok := p.writtenPath(origin); ok {
				in, _ := view.Containing(origin)
				return path, in.Flags, true
			}
		}
	}
	return "", 0, false
}

// removedOrigin is origin for a mount whose directory was removed, by a last path of the directory.
func (p *Plugin) removedOrigin(view *mount.View, at mount.Info) (path string, flags mount.Flags, ok bool) {
	for last, in := range lastPaths(view, at) {
		if path, ok := p.writtenPath(last); ok {
			return path, in.Flags, true
		}
	}
	return "", 0, false
}

// lastPaths returns the paths at which the removed directory of a mount was visible, each with the
// mount that it was in. Something else may be at a path by now.
func lastPaths(view *mount.View, at mount.Info) iter.Seq2[string, mount.Info] {
	return func(yield func(string, mount.Info) bool) {
		for _, in := range view.Table() {
			rest, is := below(in.Root, at.Root)
			if !is || in.Deleted || in.Major != at.Major || in.Minor != at.Minor {
				continue
			}
			last := path.Join(in.Mountpoint, rest)
			if holds, ok := view.Containing(path.Dir(last)); ok && holds.ID == in.ID && !yield(last, in) {
				return
			}
		}
	}
}

// deviceOrigin returns the mount of the device from which the mount at mountPath is bound,
// and the volume's name there.
func (p *Plugin) deviceOrigin(view *mount.View, mountPath string) (shared mount.Info, name string, ok bool) {
	dir, err := p.host.PluginDir(PluginName)
	if err != nil {
		return mount.Info{}, "", false
	}
	shareds := path.Join(dir, mountsDir)
	for origin := range view.OriginsBelow(mountPath, shareds) {
		rest, is := below(shareds, origin)
		if shared, ok := view.At(origin); is && ok && !strings.Contains(rest, "/") {
			return shared, rest, true
		}
	}
	return mount.Info{}, "", false
}

// deviceSpec recovers a volume on a device: by the device's record, or by the mount table. Without a
// record, as for a device that a kubelet has mounted, a link to the device gives the path. A broken
// record may be of another link: then the path is unknown.
func (p *Plugin) deviceSpec(volumeName, name string, at, shared mount.Info) (*volume.Spec, error) {
	options := util.BindOptions(at.Flags, shared.Flags)
	if shared.Flags&mount.ReadOnly != 0 {
		options = append(options, "ro")
	}
	rec, err := p.records.read(name)
	if err != nil || rec == nil {
		path, ok := p.writtenPath(shared.Source)
		if !ok && err == nil {
			path, ok = p.linkTo(shared.Source)
		}
		if !ok {
			return nil, volume.AsUncertain(fmt.Errorf("%s: %w", at.Mountpoint, errors.Join(errNoOrigin, err)))
		}
		rec = &record{Path: path, FSType: shared.FSType}
	}
	spec := specFor(volumeName, rec.Path, options, at.Flags&mount.ReadOnly != 0)
	spec.PersistentVolume.UID = rec.UID
	spec.PersistentVolume.Spec.Local.FSType = &rec.FSType
	return spec, nil
}

// linkTo returns the path, as written in a persistent volume, of a link in Config.DeviceLinks that
// leads to a device node; of several links the first by name. A mount program replaces a link by its
// target, so that the mount table has the node alone.
func (p *Plugin) linkTo(node string) (written string, ok bool) {
	for _, r := range p.roots {
		if !r.links {
			continue
		}
		entries, _ := os.ReadDir(r.resolved) // an unreadable directory has no link that leads to the node
		for _, entry := range entries {
			end, k, err := p.follow(location{path: path.Join(r.resolved, entry.Name())})
			if err == nil && k == kindDevice && end == node {
				return path.Join(r.declared, entry.Name()), true
			}
		}
	}
	return "", false
}

func specFor(name, path string, options []string, readOnly bool) *volume.Spec {
	mode := v1.PersistentVolumeFilesystem
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			VolumeMode:             &mode,
			MountOptions:           options,
		},
	}
	return volume.NewSpecFromPersistentVolume(pv, readOnly)
}
