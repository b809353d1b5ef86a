package table

import (
	"context"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
)

// A source is the device, export or text that mounts are made from.
type source struct {
	text string // as the mount table shows it
	// block: the source is a block device. Its mounts may show any text.
	block  bool
	device kernel.Device
	paths  *lookup.Resolver
}

// findSource returns the source with a text, which may be the path of a block device.
func findSource(ctx context.Context, paths *lookup.Resolver, text string) (s source, err error) {
	s = source{text: text, paths: paths}
	s.device, s.block, err = paths.FollowingLinks().FindBlockDevice(ctx, text)
	return s, err
}

// selectEntries returns the entries of mounts from the source.
func (s source) selectEntries(ctx context.Context, entries []mountinfo.Entry) (from []mountinfo.Entry, err error) {
	for _, e := range entries {
		ok, err := s.matches(ctx, e)
		if err != nil {
			return nil, err
		}
		if ok {
			from = append(from, e)
		}
	}
	return from, nil
}

// matches compares device numbers.
func (s source) matches(ctx context.Context, e mountinfo.Entry) (bool, error) {
	if !s.block {
		return e.Source == s.text, nil
	}
	d, block, err := s.deviceOf(ctx, e)
	return block && d == s.device, err
}

// deviceOf returns the device of a mount. A file system of type btrfs has device numbers of its own;
// its mounts show the path of one of its devices.
func (s source) deviceOf(ctx context.Context, e mountinfo.Entry) (d kernel.Device, block bool, err error) {
	if e.FSType == "btrfs" {
		return s.paths.FollowingLinks().FindBlockDevice(ctx, e.Source)
	}
	return kernel.Device{Major: e.Major, Minor: e.Minor}, e.Major != 0, nil
}

// IsOfDevice reports whether a mount is one of the block device at a path, whose links are followed.
// Known is false if the device of either is unknown, also by an error. A btrfs of several devices is
// one of the device that the mount table shows.
func IsOfDevice(ctx context.Context, paths *lookup.Resolver, e mountinfo.Entry, path string) (is, known bool) {
	if e.Major == 0 && e.FSType != "btrfs" {
		return false, false // not of one device, and the path may be on a file system that does not answer
	}
	s, err := findSource(ctx, paths, path)
	if err != nil || !s.block {
		return false, false
	}
	d, known, err := s.deviceOf(ctx, e)
	return d == s.device, known && err == nil
}
