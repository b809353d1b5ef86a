package manager

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// readRecords returns the records that can be believed, and by their files the others.
func (l *loop) readRecords() (good []record, unread map[string]brokenRecord) {
	recs, unread := l.disk.read()
	for _, rec := range recs {
		if err := l.checkPlace(rec); err != nil {
			unread[fileOf(rec.Volume)] = brokenRecord{rec.Volume, rec.Attachable, rec.Plugin, err}
			continue
		}
		good = append(good, rec)
	}
	return good, unread
}

// checkPlace refuses a record that names another place than the plugin has for the
// volume: what is mounted there is not ours to unmount.
func (l *loop) checkPlace(rec record) error {
	if !(rec.DeviceMountable || rec.Block) || rec.DeviceMountPath == "" {
		return nil
	}
	v := rec.volume()
	plugin, err := l.config.Plugins.FindPluginByName(rec.Plugin)
	if err != nil {
		return fmt.Errorf("record of volume %q: %w", short(string(rec.Volume)), err)
	}
	path, err := deviceMountPath(job{plugin: plugin, spec: v.spec, traits: v.traits, lastPod: v.lastPod})
	if err == nil && path != rec.DeviceMountPath {
		err = fmt.Errorf("it says that the volume is mounted at %q, which is not its place", short(rec.DeviceMountPath))
	}
	if err != nil {
		return fmt.Errorf("record of volume %q: %w", short(string(rec.Volume)), err)
	}
	return nil
}

func (l *loop) leftoversOf(unread map[string]brokenRecord) (leftovers []Leftover) {
	for _, file := range slices.Sorted(maps.Keys(unread)) {
		path := filepath.Join(l.disk.place(), file)
		leftovers = append(leftovers, Leftover{Path: path, Plugin: unread[file].plugin, Err: unread[file].err})
	}
	return leftovers
}

func (l *loop) hasUnread() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.unread) > 0
}

// isUnread reports whether there may be a record of the volume that is not believed. The
// caller holds mu.
func (w *world) isUnread(name v1.UniqueVolumeName) bool {
	_, ok := w.unread[fileOf(name)]
	return ok
}

// takeRecords takes in those that could not be read before, and forgets those that are
// gone. The caller holds mu.
func (l *loop) takeRecords(f finding) {
	_, all := l.unread[""] // not even their names could be read
	for _, rec := range f.records {
		if !all && !l.isUnread(rec.Volume) || l.running[rec.Volume] {
			continue
		}
		l.have.mergeRecord(rec)
		delete(l.unread, fileOf(rec.Volume))
	}
	for file, was := range l.unread {
		if now, ok := f.unread[file]; ok {
			l.unread[file] = now
		} else if !l.running[was.volume] {
			delete(l.unread, file)
		}
	}
}

// mergeRecord adds what a record tells of that is not known better.
func (w actualWorld) mergeRecord(rec record) {
	v := rec.volume()
	if known := w.volumes[rec.Volume]; known != nil {
		for key := range known.pods.all() {
			v.pods = v.pods.without(key)
		}
	}
	w.merge(rebuilt{name: rec.Volume, volume: v})
}

// forgetUnread: the record has been written anew, or removed. If others had to wait for
// what it tells of they need not any more. The caller holds mu.
func (l *loop) forgetUnread(name v1.UniqueVolumeName) {
	was := l.unread[fileOf(name)]
	delete(l.unread, fileOf(name))
	if was.plugin == "" {
		return // the next rescan sees that it is gone
	}
	path := filepath.Join(l.disk.place(), fileOf(name))
	l.setLeftovers(slices.DeleteFunc(slices.Clone(l.leftovers), func(left Leftover) bool { return left.Path == path }))
	l.allDirty()
}
