package disk

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/util/loop"
	"golang.org/x/sys/unix"
)

// A share is how much of a device another device covers.
type share int

const (
	whole share = iota
	part
	mapped // by the device mapper or a RAID
)

// A stack is all devices that store the data of one device, by "major:minor": the device,
// the disk of a partition, the devices below a mapped device, and their stacks.
type stack map[string]share

// sysfs is where the kernel lists block devices by number.
type sysfs string

const blockDevices sysfs = "/sys/dev/block"

// stackOf fails only on a shortage of descriptors or memory, which would make the stack
// incomplete.
func (s sysfs) stackOf(number uint64) (stack, error) {
	all, r := stack{}, &reader{}
	s.add(r, all, fmt.Sprintf("%d:%d", unix.Major(number), unix.Minor(number)), whole)
	return all, r.err
}

// add adds a device and, recursively, the devices that store its data. A device that is
// reached with several shares counts as whole.
func (s sysfs) add(r *reader, to stack, device string, as share) {
	if device == "" {
		return // it is being removed
	}
	if was, ok := to[device]; ok && was != as {
		as = whole // in more than one way
	}
	to[device] = as
	dir, err := filepath.EvalSymlinks(path.Join(string(s), device))
	if err != nil {
		return // it was removed
	}
	if r.word(dir+"/partition") != "" {
		s.add(r, to, r.word(path.Dir(dir)+"/dev"), part)
	}
	below, err := os.ReadDir(dir + "/slaves")
	r.note(err)
	for _, slave := range below {
		s.add(r, to, r.word(path.Join(dir, "slaves", slave.Name(), "dev")), mapped)
	}
}

// overlaps reports whether a write to one device may change the other. Two partitions of a
// disk do not overlap, nor do two devices that are mapped to one disk.
func (s stack) overlaps(other stack) bool {
	for device, share := range s {
		if its, ok := other[device]; ok && (share != its || share == whole) {
			return true
		}
	}
	return false
}

// devices returns the stack in the order in which claims lock it.
func (s stack) devices() []string { return slices.Sorted(maps.Keys(s)) }

// isBelowLoop reports whether a loop device is on the device, on its disk or on one of its
// partitions. One named ignore that is ending does not count.
//
// An exclusive open does not show a loop device: a loop device with an exclusive claim
// would keep mkfs and mount from the owner of the raw device.
func isBelowLoop(ctx context.Context, disk Info, ignore string) (bool, error) {
	all, err := loop.List(ctx)
	if err != nil {
		return false, err
	}
	own, err := blockDevices.stackOf(disk.Number)
	if err != nil {
		return false, err
	}
	for _, d := range all {
		if is, err := isOn(ctx, d, disk, own, ignore); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// isOn compares numbers: the device may have other nodes. The backing path decides only for
// a loop device that must not be opened.
func isOn(ctx context.Context, d loop.Device, disk Info, own stack, ignore string) (bool, error) {
	status, err := loop.Status(ctx, d.Path)
	switch {
	case isShortage(err):
		return false, err
	case err != nil:
		return d.Backing == disk.Path, nil
	case status.BackingDevice == 0 || status.Ending && status.Name == ignore:
		return false, nil
	}
	its, err := blockDevices.stackOf(status.BackingDevice)
	return own.overlaps(its), err
}
