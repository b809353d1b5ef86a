package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"strings"

	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
)

// repair writes the file of a mounted volume whose file is missing or broken, if the mount is one of a
// staged volume, whose file names driver and handle. Otherwise the error is uncertain.
func (p *Plugin) repair(ctx context.Context, t target, cause error) (voldata.Data, error) {
	data, err := p.stagedOriginOf(ctx, t)
	if err != nil {
		return data, err
	}
	if data.DriverName == "" {
		return data, volume.AsUncertain(fmt.Errorf("%s: %w: %w", t.path, ErrUnknownVolume, cause))
	}
	node := p.host.NodeName()
	data = voldata.Data{
		VolumeHandle: data.VolumeHandle, DriverName: data.DriverName, NodeName: string(node),
		AttachmentID: attachmentName(data.DriverName, data.VolumeHandle, node), LifecycleMode: string(storagev1.VolumeLifecyclePersistent),
		Repaired: true,
	}
	if name := path.Base(path.Dir(t.path)); p.isPodVolumeDir(path.Dir(t.path)) {
		data.SpecVolumeID = name
	} else {
		data.SpecVolumeID = podvolume.ViewedName(path.Base(t.path))
	}
	if _, err := p.files.create(t.file, data); err != nil {
		return data, volume.AsUncertain(fmt.Errorf("repair %s: %w", t.file, err))
	}
	return data, nil
}

// stagedOriginOf returns the data of the staged volume from which the mount at a target was bound; zero
// if the mount table shows none, or several: volumes of one export show each other's content.
func (p *Plugin) stagedOriginOf(ctx context.Context, t target) (voldata.Data, error) {
	at, view, err := p.mounts.At(ctx, t.path)
	if err != nil {
		return voldata.Data{}, volume.AsUncertain(err)
	}
	own, err := p.ownDir()
	if err != nil {
		return voldata.Data{}, err
	}
	origin := ""
	for candidate := range view.OriginsBelow(at.Mountpoint, own) {
		parts := strings.Split(strings.TrimPrefix(candidate, own+"/"), "/") // driver, hash, globalmount
		switch {
		case len(parts) != 3 || parts[2] != globalDir || candidate == origin:
		case origin != "":
			return voldata.Data{}, nil
		default:
			origin = candidate
		}
	}
	if origin == "" {
		return voldata.Data{}, nil
	}
	dir := path.Dir(origin)
	data, err := p.readStaged(stagingIn(dir), path.Base(path.Dir(dir)))
	if err != nil {
		return voldata.Data{}, nil // the error of the target's file says more
	}
	return data, nil
}

var errOtherVolume = errors.New("the file names another volume")

// readStaged reads the file of a staged volume. Driver and handle must be those in the path.
func (p *Plugin) readStaged(t target, driver string) (voldata.Data, error) {
	data, err := p.readData(t)
	if err == nil {
		err = checkStagedIn(t, data, driver)
	}
	return data, err
}

// checkStagedIn returns an error for the data of another volume than that of a staging path.
func checkStagedIn(t target, data voldata.Data, driver string) error {
	if isStagedIn(data, driver, path.Base(path.Dir(t.path))) {
		return nil
	}
	return fmt.Errorf("%w: %s: %w", errBrokenData, t.file, errOtherVolume)
}

// isStagedIn reports whether a volume is staged in the directory of a driver and a hash.
func isStagedIn(data voldata.Data, driver, sum string) bool {
	return data.DriverName == driver && hash(data.VolumeHandle) == sum
}

// stagedDataOf is dataOf for the target of a staged volume: the files of pods repair a broken file, and a
// missing one of a mounted volume.
func (p *Plugin) stagedDataOf(ctx context.Context, t target, driver string) (voldata.Data, error) {
	data, err := p.readStaged(t, driver)
	switch {
	case err == nil:
		return data, nil
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errBrokenData):
		return data, util.Transient(err)
	}
	mounted, failed := p.isMounted(ctx, t.path)
	if failed != nil {
		return data, util.Transient(failed)
	}
	if !mounted && errors.Is(err, fs.ErrNotExist) {
		if err := p.removeTarget(ctx, t); err != nil {
			return data, volume.AsUncertain(fmt.Errorf("remove a volume without data: %w", err))
		}
		return data, fmt.Errorf("%s: %w", t.path, volume.ErrNotMounted)
	}
	data, ok := p.publishedDataOf(driver, path.Base(path.Dir(t.path)))
	if !ok {
		return data, volume.AsUncertain(fmt.Errorf("%s: %w: %w", t.path, ErrUnknownVolume, err))
	}
	data = voldata.Data{VolumeHandle: data.VolumeHandle, DriverName: data.DriverName}
	if err := p.files.writeDurably(t.file, data, ""); err != nil {
		return data, volume.AsUncertain(fmt.Errorf("repair %s: %w", t.file, err))
	}
	return data, nil
}

// repairStaged repairs the file of the staging path of a volume that is about to be unpublished: afterwards no file of a
// pod names the volume. The caller holds the lock of the pod's target.
func (p *Plugin) repairStaged(ctx context.Context, published voldata.Data) error {
	own, err := p.ownDir()
	if err != nil {
		return err
	}
	t := stagingIn(path.Join(own, published.DriverName, hash(published.VolumeHandle)))
	_, err = p.readStaged(t, published.DriverName)
	if err == nil {
		return nil
	}
	if _, missing := os.Lstat(t.path); errors.Is(err, fs.ErrNotExist) && errors.Is(missing, fs.ErrNotExist) {
		return nil // not staged, as by a driver that only publishes
	}
	return p.mounts.Exclusively(ctx, t.path, func(ctx context.Context, _ string) error {
		_, err := p.stagedDataOf(ctx, t, published.DriverName)
		if errors.Is(err, volume.ErrNotMounted) {
			return nil
		}
		return err
	})
}

// publishedDataOf returns the data in any file of a published volume that is staged in a directory.
func (p *Plugin) publishedDataOf(driver, sum string) (voldata.Data, bool) {
	for data, err := range p.publishedData() {
		if err == nil && isStagedIn(data, driver, sum) {
			return data, true
		}
	}
	return voldata.Data{}, false
}

// reserveUnpublished keeps pods from a staged volume until release is called, if the volume is not published.
func (p *Plugin) reserveUnpublished(ctx context.Context, t target, driver string) (release func(), ok bool) {
	release, err := p.uses.Unstage(t.path)
	if err != nil {
		return nil, false
	}
	if !p.isUnpublished(ctx, t, driver) {
		release()
		return nil, false
	}
	return release, true
}

// isUnpublished reports whether a staged volume is not published: no file of a published volume names it or
// is broken, and the mount of the staging path has no other mount point.
func (p *Plugin) isUnpublished(ctx context.Context, t target, driver string) bool {
	for data, err := range p.publishedData() {
		if err != nil || isStagedIn(data, driver, path.Base(path.Dir(t.path))) {
			return false
		}
	}
	refs, err := p.config.Mounter.MountRefs(ctx, t.path)
	return len(refs) == 0 && ignoreMissing(err) == nil
}

// publishedData yields the data in the files of all published volumes. An error is one of a file or a
// directory that cannot be read; missing ones are omitted.
func (p *Plugin) publishedData() iter.Seq2[voldata.Data, error] {
	return func(yield func(voldata.Data, error) bool) {
		own, err := p.ownDir()
		if err != nil {
			yield(voldata.Data{}, err)
			return
		}
		pods, err := namesIn(path.Join(p.host.Root(), "pods"))
		if err := ignoreMissing(err); err != nil && !yield(voldata.Data{}, err) {
			return
		}
		dirs := []string{path.Join(own, targetsDir)}
		for _, pod := range pods {
			if volumes, err := p.podVolumesDir(pod); err == nil { // otherwise no name of a pod
				dirs = append(dirs, volumes)
			}
		}
		for _, dir := range dirs {
			if !p.yieldData(dir, yield) {
				return
			}
		}
	}
}

// yieldData yields the data in the files of the directories in a directory, until yield returns false.
func (p *Plugin) yieldData(dir string, yield func(voldata.Data, error) bool) bool {
	names, err := namesIn(dir)
	if err := ignoreMissing(err); err != nil && !yield(voldata.Data{}, err) {
		return false
	}
	for _, name := range names {
		data, err := p.readData(targetIn(path.Join(dir, name)))
		if !errors.Is(err, fs.ErrNotExist) && !yield(data, err) {
			return false
		}
	}
	return true
}

func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, entry := range entries {
		names[i] = entry.Name()
	}
	return names, err
}
