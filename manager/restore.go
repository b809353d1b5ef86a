package manager

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Leftover is something below the host's root that may be a volume, or tell of one,
// and that the manager does not understand. It is kept.
type Leftover struct {
	Path string
	Pod  types.UID // empty: not known
	// Plugin is the name of the plugin that it would be of, if it is known by name.
	Plugin string
	Err    error // why it is not understood
}

// restore finds out what there is: from our records, and from the directories of the
// pods by their plugins. All of it is uncertain: what is wanted is set up again, which
// changes nothing if it is up as wanted, and what is not is taken down.
func (l *loop) restore(ctx context.Context) error {
	have, leftovers := newActualWorld(), []Leftover(nil)
	recs, broken := l.disk.read()
	for _, err := range broken {
		leftovers = append(leftovers, Leftover{Path: l.disk.place(), Err: err})
	}
	for _, rec := range recs {
		have.put(rec.Volume, rec.volume())
	}
	found, err := l.disk.volumes()
	if err != nil {
		return fmt.Errorf("manager: looking for the volumes of an earlier run: %w", err)
	}
	for _, f := range found {
		if err := l.reconstruct(ctx, have, f); err != nil {
			leftovers = append(leftovers, f.leftover(err))
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	l.logLeftovers(leftovers)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have, l.leftovers, l.restored = have, leftovers, true
	l.allDirty()
	l.tellAll()
	return nil
}

func (l *loop) logLeftovers(leftovers []Leftover) {
	for _, left := range leftovers {
		l.config.Logger.Warn("left alone: not understood", "path", left.Path, "err", left.Err)
	}
}

// rescan looks again at what was not understood, and for what has come since.
func (l *loop) rescan(ctx context.Context) {
	found, err := l.disk.volumes()
	if err != nil {
		l.config.Logger.Warn("looking for volumes that nobody knows", "err", err)
		return
	}
	fresh, leftovers := newActualWorld(), []Leftover(nil)
	for _, f := range found {
		if l.isKnown(f) {
			continue
		}
		if err := l.reconstruct(ctx, fresh, f); err != nil {
			leftovers = append(leftovers, f.leftover(err))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, v := range fresh.volumes {
		if l.have.volumes[name] == nil && !l.running[name] {
			l.have.put(name, v)
			l.dirty[name] = true
		}
	}
	records := slices.DeleteFunc(slices.Clone(l.leftovers), func(left Leftover) bool { return left.Path != l.disk.place() })
	l.leftovers = append(records, leftovers...)
}

// isKnown reports whether a directory is that of a volume that is wanted, there, or
// being worked on.
func (l *loop) isKnown(f foundVolume) bool {
	plugin, err := volume.UnescapeQualifiedName(f.plugin)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	dir := podDir{f.pod, plugin, f.name}
	if l.have.dirs[dir] != "" || l.want.dirs[dir] != "" {
		return true
	}
	for _, flight := range l.flights {
		if flight.pod == (podKey{f.pod, f.name}) {
			return true
		}
	}
	return false
}

// A foundVolume is a directory, or something in the place of one, where the volume of a
// pod would be.
type foundVolume struct {
	pod          types.UID
	plugin, name string // the plugin as it stands in the path
	path         string
	block        bool
}

func (f foundVolume) leftover(err error) Leftover {
	plugin, _ := volume.UnescapeQualifiedName(f.plugin)
	return Leftover{Path: f.path, Pod: f.pod, Plugin: plugin, Err: err}
}

// findVolumes reads the names of directories and looks at none of what they name: a
// server that does not answer may be behind it.
func findVolumes(root string) ([]foundVolume, error) {
	var found []foundVolume
	pods, err := namesIn(filepath.Join(root, "pods"))
	for _, pod := range pods {
		for _, kind := range []string{"volumes", "volumeDevices"} {
			dir := filepath.Join(root, "pods", pod, kind)
			plugins, failed := namesIn(dir)
			err = errors.Join(err, failed)
			for _, plugin := range plugins {
				names, failed := namesIn(filepath.Join(dir, plugin))
				err = errors.Join(err, failed)
				for _, name := range names {
					found = append(found, foundVolume{types.UID(pod), plugin, name, filepath.Join(dir, plugin, name), kind == "volumeDevices"})
				}
			}
		}
	}
	return found, err
}

// namesIn returns what is in a directory, sorted. One that is missing, or is none, has
// nothing in it.
func namesIn(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|openDirectory, 0)
	if errors.Is(err, fs.ErrNotExist) || isNotDirectory(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

// reconstruct adds a volume that was found. An error is why it cannot be told what it
// is.
func (l *loop) reconstruct(ctx context.Context, have actualWorld, f foundVolume) error {
	name, err := volume.UnescapeQualifiedName(f.plugin)
	if err != nil {
		return err
	}
	key := podKey{f.pod, f.name}
	if _, ok := have.dirs[podDir{f.pod, name, f.name}]; ok {
		return nil // a record has it
	}
	plugin, err := l.config.Plugins.FindPluginByName(name)
	if err != nil {
		return err
	}
	labels := []Label{{"volume_plugin", name}}
	l.config.Metrics.Add(ReconstructTotal, 1, labels...)
	v, at, err := rebuild(ctx, plugin, f)
	if err != nil {
		l.config.Metrics.Add(ReconstructErrors, 1, labels...)
		return err
	}
	if other := have.volumes[at]; other != nil {
		v.pods = mapsWith(other.pods, key, v.pods[key])
	}
	have.put(at, v)
	return nil
}

// rebuild asks the plugin what it is.
func rebuild(ctx context.Context, plugin volume.VolumePlugin, f foundVolume) (v *actualVolume, _ v1.UniqueVolumeName, err error) {
	defer recovered(&err)
	key := podKey{f.pod, f.name}
	v = &actualVolume{
		plugin: plugin.GetPluginName(), name: f.name, lastPod: key, traits: traits{block: f.block},
		pods: map[podKey]*actualPod{key: {state: uncertain, block: f.block}},
	}
	spec, err := constructSpec(ctx, plugin, f)
	if errors.Is(err, volume.ErrNotMounted) {
		// Nothing is up, and the directory is left: for the plugin to remove.
		return v, uniqueName(v.plugin, f.name, false, f.pod), nil
	}
	if err != nil {
		return nil, "", err
	}
	v.spec = spec
	if v.name, err = plugin.GetVolumeName(spec); err == nil {
		v.traits, err = traitsOf(plugin, spec)
	}
	if err == nil {
		err = v.assumeShared(plugin)
	}
	return v, uniqueName(v.plugin, v.name, v.traits.oneName(), f.pod), err
}

func constructSpec(ctx context.Context, plugin volume.VolumePlugin, f foundVolume) (*volume.Spec, error) {
	if !f.block {
		return plugin.ConstructVolumeSpec(ctx, f.name, f.path)
	}
	able, err := blockPlugin(plugin)
	if err != nil {
		return nil, err
	}
	return able.ConstructBlockVolumeSpec(ctx, f.pod, f.name, f.path)
}

// assume: what is, or may be, up in a pod stands on what its kind needs.
func (v *actualVolume) assume() {
	if v.traits.attachable {
		v.attached = uncertain
	}
	if v.traits.onDevice() {
		v.device = uncertain
	}
}

// assumeShared: a volume that is up in a pod may be attached, and mounted for all pods.
func (v *actualVolume) assumeShared(plugin volume.VolumePlugin) error {
	v.assume()
	if !v.traits.deviceMountable {
		return nil
	}
	able, err := deviceMountable(plugin)
	if err != nil {
		return err
	}
	mounter, err := able.NewDeviceMounter()
	if err != nil {
		return err
	}
	v.deviceMountPath, err = mounter.GetDeviceMountPath(v.spec)
	return err
}
