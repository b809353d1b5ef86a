package mountutils

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/mount"
	peer "k8s.io/mount-utils"
)

// List implements Interface of mount-utils. Hidden mounts are included.
func (m *Mounter) List() ([]peer.MountPoint, error) {
	ctx, cancel := m.callContext(m.timeout)
	defer cancel()
	table, err := m.kernel().List(ctx)
	if err != nil {
		return nil, err
	}
	points := make([]peer.MountPoint, len(table))
	for i, info := range table {
		points[i] = peer.MountPoint{Device: info.Source, Path: info.Mountpoint, Type: info.FSType, Opts: optionsOf(info)}
	}
	return points, nil
}

// optionsOf returns options in the format of /proc/mounts: "rw" or "ro" first, then those of
// the mount, then those of the file system.
func optionsOf(info mount.Info) []string {
	first := "rw"
	if slices.Contains(info.Options, "ro") || slices.Contains(info.SuperOptions, "ro") {
		first = "ro"
	}
	options := []string{first}
	for _, option := range slices.Concat(info.Options, info.SuperOptions) {
		if option != "rw" && option != "ro" {
			options = append(options, option)
		}
	}
	return options
}

// IsLikelyNotMountPoint implements Interface of mount-utils. It is always right: it reads the
// mount table, and recognises bind mounts, too. A symbolic link is followed. For a missing
// path it returns true and an error that os.IsNotExist recognises.
func (m *Mounter) IsLikelyNotMountPoint(file string) (bool, error) {
	is, err := m.IsMountPoint(file)
	return !is, err
}

// IsMountPoint implements Interface of mount-utils, like IsLikelyNotMountPoint.
func (m *Mounter) IsMountPoint(file string) (bool, error) {
	const op = "is mount point"
	if file == "" {
		return false, queryError(op, file, syscall.ENOENT)
	}
	ctx, cancel := m.callContext(m.timeout)
	defer cancel()
	path, err := m.links.follow(ctx, m.kernel(), file)
	if err != nil {
		return false, queryError(op, file, err)
	}
	is, err := m.kernel().IsMountPoint(ctx, path)
	return is && err == nil, queryError(op, file, err)
}

// GetMountRefs implements Interface of mount-utils: it returns the other mount points at
// which the file at pathname is visible. A symbolic link is followed. For a missing path the
// list is empty, without an error.
func (m *Mounter) GetMountRefs(pathname string) ([]string, error) {
	if pathname == "" {
		return []string{}, nil
	}
	ctx, cancel := m.callContext(m.timeout)
	defer cancel()
	path, err := m.links.follow(ctx, m.kernel(), pathname)
	if err != nil {
		return nil, queryError("mount refs", pathname, err)
	}
	refs, err := m.kernel().MountRefs(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return []string{}, nil
	}
	return refs, queryError("mount refs", pathname, err)
}
