package manager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/record"
	v1 "k8s.io/api/core/v1"
)

// A simDisk holds the manager's own files and directories on a simulated disk, in the layout
// and with the contents of a real one.
type simDisk struct{ *simWorld }

const simRecords = "/plugins/volumekit.io/manager/volumes"

func recordPath(name v1.UniqueVolumeName) string { return simRecords + "/" + record.FileName(name) }

// Write writes a record as record.Directory does, one system call after the other.
func (d simDisk) Write(rec record.Record) error {
	if d.consumeFault(failRecord) {
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
		delete(d.torn, simNameOf(rec.Volume))
		if d.consumeFault(failRecordAfter) {
			err = syscall.EIO
		}
	}
	return err
}

func (d simDisk) Remove(name v1.UniqueVolumeName) error {
	if d.consumeFault(failRecord) {
		return syscall.EIO
	}
	err := d.unlink(recordPath(name))
	if err == nil && d.consumeFault(failRecordAfter) {
		err = syscall.EIO
	}
	return recordstore.IgnoreMissing(err)
}

func (d simDisk) Read() (all []record.Record, broken map[string]record.Broken) {
	broken = map[string]record.Broken{}
	for _, name := range d.tree.names(simRecords) {
		if !strings.HasSuffix(name, ".json") {
			continue
		}
		rec, err := record.Parse(name, d.tree[simRecords+"/"+name].data)
		if err != nil {
			broken[name] = record.NewBroken(name, rec, fmt.Errorf("record %s: %w", name, err))
			continue
		}
		all = append(all, rec)
	}
	return all, broken
}

func (d simDisk) RecordDir() string { return simRecords }

func (d simDisk) FindVolumes() (poddirs.Layout, error) {
	return poddirs.FindVolumes("/", func(dir string) ([]string, error) { return d.tree.names(dir), nil })
}

func (d simDisk) RemoveEmptyDirs() {
	nothing := func(string) error { return errors.ErrUnsupported }
	poddirs.RemoveEmptyDirs("/", poddirs.Disk{NamesIn: func(dir string) ([]string, error) { return d.tree.names(dir), nil }, Rmdir: d.rmdir, RemoveMountPoint: nothing, RemoveNote: nothing})
}

// RemoveEmptyParents removes directories as hostdisk.Disk does.
func (d simDisk) RemoveEmptyParents(_ context.Context, name string) error {
	if d.consumeFault(failCleanup) {
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
