package manager

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/record"
	v1 "k8s.io/api/core/v1"
)

// readRecords returns the valid records, and the broken ones by file.
func (r *restorer) readRecords() (good []record.Record, unread map[string]record.Broken) {
	recs, unread := r.disk.Read()
	for _, rec := range recs {
		if err := r.checkRecord(rec); err != nil {
			unread[record.FileName(rec.Volume)] = record.Broken{Volume: rec.Volume, Attachable: rec.Attachable, Plugin: rec.Plugin, Err: err}
			continue
		}
		good = append(good, rec)
	}
	return good, unread
}

// checkRecord refuses a record whose device mount path differs from the plugin's: a mount at the
// recorded path is not the manager's to unmount.
func (r *restorer) checkRecord(rec record.Record) error {
	if !(rec.DeviceMountable || rec.Block) || rec.DeviceMountPath == "" {
		return nil
	}
	v := rec.ActualVolume()
	plugin, err := r.config.Plugins.FindPluginByName(rec.Plugin)
	if err != nil {
		return fmt.Errorf("check record of volume %q: %w", brief.Name(string(rec.Volume)), err)
	}
	path, err := ability.SharedVolume{Plugin: plugin, Spec: v.Spec, Block: v.Traits.Block, LastPod: v.LastPod}.DeviceMountPath()
	if err == nil && path != rec.DeviceMountPath {
		err = fmt.Errorf("device mount path %s: the plugin uses %s", input.Quote(rec.DeviceMountPath), input.Quote(path))
	}
	if err != nil {
		return fmt.Errorf("check record of volume %q: %w", brief.Name(string(rec.Volume)), err)
	}
	return nil
}

// leftoversOfRecords returns the leftovers of broken records, by file.
func (r *restorer) leftoversOfRecords(unread map[string]record.Broken) (leftovers []Leftover) {
	for _, file := range slices.Sorted(maps.Keys(unread)) {
		path := filepath.Join(r.disk.RecordDir(), file)
		leftovers = append(leftovers, Leftover{Path: path, Plugin: unread[file].Plugin, Err: unread[file].Err, Volume: unread[file].Volume})
	}
	return leftovers
}

// hasBrokenRecords reports whether any record is broken.
func (s *snapshot) hasBrokenRecords() bool { return s.brokenRecords.Len() > 0 }

// hasBrokenRecord reports whether the volume's record is broken.
func (s *snapshot) hasBrokenRecord(name v1.UniqueVolumeName) bool {
	_, ok := s.brokenRecords.Find(record.FileName(name))
	return ok
}

// mergeRecords adds records that have become valid, and drops broken records that are gone.
// The caller holds mu.
func (w *world) mergeRecords(f scanResult) {
	_, all := w.brokenRecords.Find("") // the directory was unreadable: no record is known
	for _, rec := range f.records {
		if !all && !w.hasBrokenRecord(rec.Volume) || w.schedule.IsBusy(rec.Volume) {
			continue
		}
		mergeRecord(&w.have, rec)
		w.brokenRecords = w.brokenRecords.Without(record.FileName(rec.Volume))
	}
	for file, was := range w.brokenRecords.All() {
		if now, ok := f.unread[file]; ok {
			w.brokenRecords = w.brokenRecords.With(file, now)
		} else if !w.schedule.IsBusy(was.Volume) {
			w.brokenRecords = w.brokenRecords.Without(file)
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

// dropBrokenRecord drops the broken record of a volume, a file in dir, after the record was rewritten
// or removed, and plans the volumes that waited for it. The caller holds mu.
func (w *world) dropBrokenRecord(dir string, name v1.UniqueVolumeName) {
	was := w.brokenRecords.Get(record.FileName(name))
	w.brokenRecords = w.brokenRecords.Without(record.FileName(name))
	if was.Plugin == "" {
		return // the next rescan drops its leftover
	}
	path := filepath.Join(dir, record.FileName(name))
	w.setLeftovers(slices.DeleteFunc(slices.Clone(w.leftovers), func(left Leftover) bool { return left.Path == path }))
	w.markAllDirty()
}
