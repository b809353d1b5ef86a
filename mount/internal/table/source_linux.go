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
	// findDevice returns the block device at a path, if any.
	findDevice func(p string) (d kernel.Device, block bool, err error)
}

// findSource resolves a source.
func findSource(ctx context.Context, paths *lookup.Resolver, text string) (s source, err error) {
	s.text = text
	s.findDevice = func(p string) (kernel.Device, bool, error) {
		return paths.FollowingLinks().FindBlockDevice(ctx, p)
	}
	s.device, s.block, err = s.findDevice(text)
	return s, err
}

// selectEntries returns the entries of mounts from the source.
func (s source) selectEntries(entries []mountinfo.Entry) (from []mountinfo.Entry, err error) {
	for _, e := range entries {
		ok, err := s.matches(e)
		if err != nil {
			return nil, err
		}
		if ok {
			from = append(from, e)
		}
	}
	return from, nil
}

// matches compares device numbers. A file system of type btrfs has device numbers of its own;
// its mounts show the path of one of its devices.
func (s source) matches(e mountinfo.Entry) (bool, error) {
	switch {
	case !s.block:
		return e.Source == s.text, nil
	case e.FSType != "btrfs":
		return kernel.Device{Major: e.Major, Minor: e.Minor} == s.device, nil
	}
	d, block, err := s.findDevice(e.Source)
	return block && d == s.device, err
}
