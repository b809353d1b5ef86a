package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	have := newActualWorld()
	recs, unread := l.readRecords()
	for _, rec := range recs {
		have.put(rec.Volume, rec.volume())
	}
	leftovers := l.leftoversOf(unread)
	l.disk.sweep()
	there, err := l.disk.volumes()
	if err != nil {
		return fmt.Errorf("manager: looking for the volumes of an earlier run: %w", err)
	}
	for _, f := range there.volumes {
		l.count(ReconstructTotal, f)
	}
	found := slices.DeleteFunc(there.volumes, func(f foundVolume) bool { return have.dirs.get(f.dir()) != "" }) // a record has it
	leftovers = append(leftovers, l.reconstruct(ctx, have, found)...)
	leftovers = append(leftovers, there.straysOf(func(pod types.UID) bool { return have.dirs[pod] == nil })...)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.logLeftovers(leftovers)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.have, l.restored, l.unread = have, true, unread
	l.setLeftovers(leftovers)
	l.allDirty()
	l.tellAll()
	return nil
}

func (l *loop) logLeftovers(leftovers []Leftover) {
	for _, left := range leftovers {
		l.config.Logger.Warn("left alone: not understood", "path", left.Path, "err", left.Err)
	}
}

// rescan looks again at what was not understood, and for what has come since, while the
// loop goes on.
func (l *loop) rescan(ctx context.Context) {
	l.rescanDue, l.rescanning = false, true
	l.scan(func() (f finding) {
		there, err := l.disk.volumes()
		if err != nil {
			l.config.Logger.Warn("looking for volumes that nobody knows", "err", err)
			return finding{}
		}
		if l.hasUnread() {
			f.records, f.unread = l.readRecords()
		}
		f.layout = there
		f.volumes = l.rebuildAll(ctx, slices.DeleteFunc(there.volumes, l.isKnown))
		return f
	})
}

// A finding is what there is that nobody knew.
type finding struct {
	volumes []rebuilt // nil: not all were looked at
	layout  layout
	records []record
	unread  map[string]brokenRecord // as in world
}

// rescanned takes in what was found, but for what has come to be known meanwhile.
func (l *loop) rescanned(ctx context.Context, f finding) {
	l.rescanning = false
	if f.volumes == nil || ctx.Err() != nil {
		return
	}
	all := slices.DeleteFunc(f.volumes, func(r rebuilt) bool { return l.isKnown(r.found) })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takeRecords(f)
	leftovers := append(l.leftoversOf(l.unread), f.layout.straysOf(l.isNobodys)...)
	for _, r := range all {
		switch {
		case r.err != nil:
			leftovers = append(leftovers, r.found.leftover(r.err))
		case l.running[r.name]: // the next time
			leftovers = append(leftovers, r.found.leftover(errBusy))
		default:
			l.have.merge(r)
			l.dirty[r.name] = true
		}
	}
	l.setLeftovers(leftovers)
	l.adopt()
	l.allDirty()
	l.tellAll()
}

var errBusy = errors.New("its volume is being worked on")

// setLeftovers also notes whose they are: nothing of such a plugin is unmounted or
// detached for good while one of its volumes is not understood. The caller holds mu.
func (l *loop) setLeftovers(leftovers []Leftover) {
	l.leftovers = leftovers
	l.unknown, l.strange = map[string]bool{}, map[podDir]bool{}
	for _, left := range leftovers {
		if left.Plugin != "" {
			l.unknown[left.Plugin] = true
			l.strange[podDir{left.Pod, left.Plugin, filepath.Base(left.Path)}] = true
		}
	}
}

// merge adds a volume that was found, or its pods to the one that is known.
func (w actualWorld) merge(r rebuilt) {
	known := w.volumes[r.name]
	if known == nil {
		w.put(r.name, r.volume)
		return
	}
	merged := *known
	for key, pod := range r.volume.pods.all() {
		merged.pods = merged.pods.with(key, pod)
	}
	merged.deviceMountPath = cmp.Or(merged.deviceMountPath, r.volume.deviceMountPath)
	if merged.traits.attachable && merged.attached == absent {
		merged.attached = uncertain
	}
	if merged.traits.onDevice() && merged.device == absent {
		merged.device = uncertain
	}
	w.put(r.name, &merged)
}

// isKnown reports whether a directory is that of a volume that is there, or being worked
// on. That one is wanted there is not enough: nobody may want it any more before it is
// set up.
func (l *loop) isKnown(f foundVolume) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.have.dirs.get(f.dir()) != "" {
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

// dir names the directory; if the plugin's name is none, nobody's.
func (f foundVolume) dir() podDir {
	plugin, _ := volume.UnescapeQualifiedName(f.plugin)
	return podDir{f.pod, plugin, f.name}
}

func (f foundVolume) leftover(err error) Leftover {
	return Leftover{Path: f.path, Pod: f.pod, Plugin: f.dir().plugin, Err: err}
}

// reconstruct adds the volumes that were found. What it cannot tell it returns.
func (l *loop) reconstruct(ctx context.Context, have actualWorld, found []foundVolume) (leftovers []Leftover) {
	for _, r := range l.rebuildAll(ctx, found) {
		if r.err != nil {
			leftovers = append(leftovers, r.found.leftover(r.err))
			l.count(ReconstructErrors, r.found)
		} else if r.volume != nil { // or ctx has ended
			have.merge(r)
		}
	}
	return leftovers
}

func (l *loop) count(metric string, f foundVolume) {
	l.config.Metrics.Add(metric, 1, Label{"volume_plugin", f.dir().plugin})
}

// A rebuilt is a volume that was found, or why it is not one.
type rebuilt struct {
	found  foundVolume
	name   v1.UniqueVolumeName
	volume *actualVolume
	err    error
}

// atOnce is how many volumes are looked at in the same moment, so that a plugin that
// reads the mount table can read it once for many.
const atOnce = 64

// rebuildAll asks the plugins what they are, in the order of found.
func (l *loop) rebuildAll(ctx context.Context, found []foundVolume) []rebuilt {
	all := make([]rebuilt, len(found))
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(atOnce, len(found)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(found)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				all[i] = l.rebuildInTime(ctx, found[i])
			}
		})
	}
	workers.Wait()
	return all
}

// lookFor is how long a plugin may take to say what a volume is. One that takes longer
// is asked again at the next rescan after it has answered.
const lookFor = 10 * time.Second

// rebuildInTime leaves a plugin behind that does not answer, and asks none about a volume
// again that has not answered yet.
func (l *loop) rebuildInTime(ctx context.Context, f foundVolume) rebuilt {
	if _, asked := l.asked.LoadOrStore(f, true); asked {
		return rebuilt{found: f, err: errMute}
	}
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	answer := make(chan rebuilt, 1)
	go func() {
		defer cancel()
		r := l.rebuild(ctx, f)
		l.asked.Delete(f)
		answer <- r
	}()
	select {
	case r := <-answer:
		return r
	case <-ctx.Done():
	}
	select {
	case r := <-answer: // it has noticed, too
		return r
	case <-time.After(time.Second):
		return rebuilt{found: f, err: fmt.Errorf("%w: %w", context.Cause(ctx), errMute)}
	}
}

var errMute = errors.New("its plugin does not answer")

func (l *loop) rebuild(ctx context.Context, f foundVolume) rebuilt {
	name, err := volume.UnescapeQualifiedName(f.plugin)
	if err != nil {
		return rebuilt{found: f, err: err}
	}
	plugin, err := l.config.Plugins.FindPluginByName(name)
	if err != nil {
		return rebuilt{found: f, err: err}
	}
	v, at, err := rebuild(ctx, plugin, f)
	return rebuilt{f, at, v, err}
}

// rebuild asks the plugin what it is.
func rebuild(ctx context.Context, plugin volume.VolumePlugin, f foundVolume) (v *actualVolume, _ v1.UniqueVolumeName, err error) {
	defer recovered(&err)
	key := podKey{f.pod, f.name}
	v = &actualVolume{
		plugin: plugin.GetPluginName(), name: f.name, lastPod: key, traits: traits{block: f.block},
		pods: podMap[*actualPod]{{key, &actualPod{state: uncertain, block: f.block}}},
	}
	spec, err := constructSpec(ctx, plugin, f)
	if errors.Is(err, volume.ErrNotMounted) || errors.Is(err, volume.ErrUncertain) && isForOnePod(plugin) && !f.block {
		// A directory, and nothing up in it, or half of what should be, as a set-up
		// that was killed leaves it: for the plugin to take down.
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

// isForOnePod reports whether all that a volume of the plugin is on this node is in its
// pod, so that the names are enough to take it down.
func isForOnePod(plugin volume.VolumePlugin) bool {
	_, attachable := volume.As[volume.AttachableVolumePlugin](plugin)
	_, onDevice := volume.As[volume.DeviceMountableVolumePlugin](plugin)
	return !attachable && !onDevice
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
