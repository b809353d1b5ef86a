package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	v1 "k8s.io/api/core/v1"
)

// A simDisk is what the manager itself keeps on a simulated disk, in the layout and with
// the contents of a real one.
type simDisk struct{ *simWorld }

const simRecords = "/plugins/volumekit.io~manager/volumes"

func recordPath(name v1.UniqueVolumeName) string { return simRecords + "/" + fileOf(name) }

// simRecordPaths are those of volumes that all pods use by one name.
var simRecordPaths = func() map[string]string {
	paths := map[string]string{}
	for _, vol := range simVolumes {
		paths[vol] = recordPath(v1.UniqueVolumeName(simName + "/" + vol))
	}
	return paths
}()

// write is as that of records, one system call after the other.
func (d simDisk) write(rec record) error {
	if d.strikes(recordFails) {
		return syscall.ENOSPC
	}
	text, err := json.Marshal(rec)
	if err == nil {
		err = d.mkdirs(simRecords)
	}
	if err == nil {
		err = d.writeFile(recordPath(rec.Volume)+".tmp", text)
	}
	if err == nil {
		err = d.rename(recordPath(rec.Volume)+".tmp", recordPath(rec.Volume))
	}
	if err == nil {
		delete(d.torn, volumeOf(rec.Volume))
		if d.strikes(recordLate) {
			err = syscall.EIO
		}
	}
	return err
}

func (d simDisk) remove(name v1.UniqueVolumeName) error {
	if d.strikes(recordFails) {
		return syscall.EIO
	}
	err := d.unlink(recordPath(name))
	if err == nil && d.strikes(recordLate) {
		err = syscall.EIO
	}
	return ignoreMissing(err)
}

func (d simDisk) read() (all []record, broken map[string]brokenRecord) {
	broken = map[string]brokenRecord{}
	for _, name := range d.tree.names(simRecords) {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		rec, err := parseRecord(name, d.tree[simRecords+"/"+name].data)
		if err != nil {
			broken[name] = newBroken(name, rec, fmt.Errorf("record %s: %w", name, err))
			continue
		}
		all = append(all, rec)
	}
	return all, broken
}

func (d simDisk) place() string { return simRecords }

func (d simDisk) volumes() (layout, error) {
	return findVolumes("/", func(dir string) ([]string, error) { return d.tree.names(dir), nil })
}

func (d simDisk) sweep() { removeEmpties("/", d.tree.names, d.rmdir) }

// tidy is as that of hostDisk.
func (d simDisk) tidy(name string) error {
	if d.strikes(tidyFails) {
		return fmt.Errorf("%w: %w", errSimUncertain, syscall.EIO)
	}
	for dir := path.Dir(name); dir != "/pods"; dir = path.Dir(dir) {
		err := d.rmdir(dir)
		if errors.Is(err, syscall.ENOTEMPTY) {
			return nil
		}
		if err != nil && !errors.Is(err, syscall.ENOENT) {
			return fmt.Errorf("%w: %w", errSimUncertain, err)
		}
	}
	return nil
}

// volumeOf returns what the simulation calls a volume that all pods use by one name.
func volumeOf(name v1.UniqueVolumeName) string { return strings.TrimPrefix(string(name), simName+"/") }
