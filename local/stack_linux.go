package local

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/util/loop"
	"golang.org/x/sys/unix"
)

// A share is how much of a device another one has.
type share int

const (
	allOfIt share = iota
	partOfIt
	mappedToIt // as device mapper and RAID do
)

// A stack is all devices on which what is written to one of them comes to lie, by their
// numbers as sysfs writes them: itself, the disk that it is a partition of, those that
// it is mapped to, and what these stand on.
type stack map[string]share

// sysfs is where the kernel lists block devices by number.
type sysfs string

const blockDevices sysfs = "/sys/dev/block"

// stackOf fails only if something could not be read for want of descriptors or memory:
// what is missing then is missed.
func (s sysfs) stackOf(number uint64) (stack, error) {
	all, r := stack{}, &reader{}
	s.add(r, all, fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)), allOfIt)
	return all, r.err
}

func (s sysfs) add(r *reader, to stack, device string, as share) {
	if device == "" {
		return // it is going
	}
	if was, ok := to[device]; ok && was != as {
		as = allOfIt // in more than one way
	}
	to[device] = as
	dir, err := filepath.EvalSymlinks(path.Join(string(s), device))
	if err != nil {
		return // it is gone
	}
	if r.word(dir+"/partition") != "" {
		s.add(r, to, r.word(path.Dir(dir)+"/dev"), partOfIt)
	}
	below, err := os.ReadDir(dir + "/slaves")
	r.note(err)
	for _, slave := range below {
		s.add(r, to, r.word(path.Join(dir, "slaves", slave.Name(), "dev")), mappedToIt)
	}
}

// overlaps reports whether what is written to one may change the other. Two partitions
// of a disk are apart, and so are two devices that are mapped to one.
func (s stack) overlaps(other stack) bool {
	for device, share := range s {
		if its, ok := other[device]; ok && (share != its || share == allOfIt) {
			return true
		}
	}
	return false
}

// devices are all of them, in an order in which they may be locked.
func (s stack) devices() []string { return slices.Sorted(maps.Keys(s)) }

// isHeld reports whether a loop device of somebody's is on the device, or on one that
// has a part of it, or of which it has a part. One of that name that is ending does not
// count.
//
// The kernel does not say: exclusive opens of a disk and its partitions, and mounts,
// keep each other away, but a hold is none. It could be one, as the loop device keeps
// the file that it was given, and the claim with it; then whoever has the raw device
// could not open it exclusively either, so neither mkfs nor mount it.
func isHeld(disk diskFacts, name string) (bool, error) {
	all, err := loop.List()
	if err != nil {
		return false, err
	}
	mine, err := blockDevices.stackOf(disk.number)
	if err != nil {
		return false, err
	}
	for _, d := range all {
		if is, err := holds(d, disk, mine, name); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// holds compares numbers: the device may have other nodes. A loop device that may not
// be opened is known by the path alone.
func holds(d loop.Device, disk diskFacts, mine stack, name string) (bool, error) {
	status, err := loop.Status(d.Path)
	switch {
	case isShortage(err):
		return false, err
	case err != nil:
		return d.Backing == disk.node, nil
	case status.BackingDevice == 0 || status.Ending && status.Name == name:
		return false, nil
	}
	its, err := blockDevices.stackOf(status.BackingDevice)
	return mine.overlaps(its), err
}
