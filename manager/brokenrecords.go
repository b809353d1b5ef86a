package manager

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/record"
	v1 "k8s.io/api/core/v1"
)

// readRecords returns the valid records, and the broken ones by file.
func (l *loop) readRecords() (good []record.Record, unread map[string]record.Broken) {
	recs, unread := l.disk.Read()
	for _, rec := range recs {
		if err := l.checkPlace(rec); err != nil {
			unread[record.FileName(rec.Volume)] = record.Broken{Volume: rec.Volume, Attachable: rec.Attachable, Plugin: rec.Plugin, Err: err}
			continue
		}
		good = append(good, rec)
	}
	return good, unread
}

// checkPlace refuses a record whose device mount path differs from the plugin's: the mount
// there is not ours to unmount.
func (l *loop) checkPlace(rec record.Record) error {
	if !(rec.DeviceMountable || rec.Block) || rec.DeviceMountPath == "" {
		return nil
	}
	v := rec.ActualVolume()
	plugin, err := l.config.Plugins.FindPluginByName(rec.Plugin)
	if err != nil {
		return fmt.Errorf("record of volume %q: %w", brief.Name(string(rec.Volume)), err)
	}
	path, err := ability.SharedVolume{Plugin: plugin, Spec: v.Spec, Block: v.Traits.Block, LastPod: v.LastPod}.DeviceMountPath()
	if err == nil && path != rec.DeviceMountPath {
		err = fmt.Errorf("it says that the volume is mounted at %q, which is not its place", brief.Name(rec.DeviceMountPath))
	}
	if err != nil {
		return fmt.Errorf("record of volume %q: %w", brief.Name(string(rec.Volume)), err)
	}
	return nil
}

// leftoversOfRecords returns the leftovers of broken records, by file.
func (l *loop) leftoversOfRecords(unread map[string]record.Broken) (leftovers []Leftover) {
	for _, file := range slices.Sorted(maps.Keys(unread)) {
		path := filepath.Join(l.disk.RecordDir(), file)
		leftovers = append(leftovers, Leftover{Path: path, Plugin: unread[file].Plugin, Err: unread[file].Err, Volume: unread[file].Volume})
	}
	return leftovers
}

// hasBrokenRecords reports whether any record is broken.
func (l *loop) hasBrokenRecords() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.brokenRecords.Len() > 0
}

// hasBrokenRecord reports whether the volume's record is broken.
func (s *snapshot) hasBrokenRecord(name v1.UniqueVolumeName) bool {
	_, ok := s.brokenRecords.Find(record.FileName(name))
	return ok
}

// mergeRecords adds records that have become valid, and drops broken records that are gone.
// The caller holds mu.
func (l *loop) mergeRecords(f scanResult) {
	_, all := l.brokenRecords.Find("") // the directory was unreadable: no record is known
	for _, rec := range f.records {
		if !all && !l.hasBrokenRecord(rec.Volume) || l.schedule.IsBusy(rec.Volume) {
			continue
		}
		mergeRecord(&l.have, rec)
		l.brokenRecords = l.brokenRecords.Without(record.FileName(rec.Volume))
	}
	for file, was := range l.brokenRecords.All() {
		if now, ok := f.unread[file]; ok {
			l.brokenRecords = l.brokenRecords.With(file, now)
		} else if !l.schedule.IsBusy(was.Volume) {
			l.brokenRecords = l.brokenRecords.Without(file)
		}
	}
}

// mergeRecord adds the parts of a record that are not known yet.
func mergeRecord(w *actual.World, rec record.Record) {
	v := rec.ActualVolume()
	if known := w.Volumes.Get(rec.Volume); known != nil {
		for key := range known.Pods.All() {
			v.Pods = v.Pods.Without(key)
		}
	}
	w.Merge(rec.Volume, v)
}

// dropBrokenRecord drops a broken record after the record was rewritten or removed, and plans
// the volumes that waited for it. The caller holds mu.
func (l *loop) dropBrokenRecord(name v1.UniqueVolumeName) {
	was := l.brokenRecords.Get(record.FileName(name))
	l.brokenRecords = l.brokenRecords.Without(record.FileName(name))
	if was.Plugin == "" {
		return // the next rescan sees that it is gone
	}
	path := filepath.Join(l.disk.RecordDir(), record.FileName(name))
	l.setLeftovers(slices.DeleteFunc(slices.Clone(l.leftovers), func(left Leftover) bool { return left.Path == path }))
	l.markAllDirty()
}
