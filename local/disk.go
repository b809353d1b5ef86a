package local

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
)

// devices is what the plugin needs of the node's block devices.
type devices interface {
	// kind looks at what is at a path, and at nothing behind it. A symbolic link is
	// not followed, neither on the way nor at the end.
	kind(path string) (kind, error)
	// readLink returns where a symbolic link leads.
	readLink(path string) (string, error)
	// open opens a block device for reading. It may have to wait for the device.
	open(node string) (disk, error)
	// identify returns which device a node is, without opening that.
	identify(node string) (diskFacts, error)
}

// errNoMedium: the device is there, and there is nothing in it.
var errNoMedium = errors.New("the device is empty: it has no size")

// A kind is what is at a path.
type kind int

const (
	kindOther kind = iota
	kindDirectory
	kindDevice
	kindLink
)

// A disk is a block device that is open. It is not closed before what it was opened
// for is done: as long as it is open, its number means this device.
type disk interface {
	io.ReaderAt
	io.Closer
	facts() diskFacts
	file() *os.File
	// handle is the device's path for a program that gets the file as its descriptor 3:
	// the node may become another device's.
	handle() string
	// inUse reports whether something has the device for itself: a mount, a RAID, a
	// loop device, ... The hold of that name that is ending does not count.
	inUse(hold string) (bool, error)
	// mark overwrites the first sector.
	mark(sector []byte) error
	// wipe overwrites what diskprobe reads with zeros. Until all of that is done the
	// first sector is the marker.
	wipe(ctx context.Context, marker []byte) error
}

// diskFacts are what is known of a disk without reading it.
type diskFacts struct {
	node     string
	number   uint64 // as stat(2) has it; 0: a file is taken for a disk
	major    uint32
	minor    uint32
	size     int64
	readOnly bool
	identity identity
	// parts are the devices that are written to with it, itself among them, sorted.
	parts []string
}

// An identity tells disks apart.
type identity struct {
	// ID is the hardware's, as far as it has one, or that of a mapped device.
	ID string `json:"id,omitempty"`
	// Part is the partition's number and place; empty for a whole disk.
	Part string `json:"part,omitempty"`
	// Boot and Sequence are another for each device that the kernel gets to know.
	Boot     string `json:"boot,omitempty"`
	Sequence uint64 `json:"sequence,omitempty"`
}

// same reports whether both are one disk for sure.
func (i identity) same(other identity) bool {
	if i.isOther(other) {
		return false
	}
	if i.ID != "" && i.ID == other.ID && !strings.HasPrefix(i.ID, slotID) {
		return true
	}
	return i.Boot != "" && i.Boot == other.Boot && i.Sequence != 0 && i.Sequence == other.Sequence
}

// isOther reports whether a disk is for sure not the one that was known as other.
func (i identity) isOther(other identity) bool {
	return i.Part != other.Part || i.differs(other) || i.replaces(other)
}

// slotID is how an ID begins that may be of what a disk is in, and not the disk's.
const slotID = "serial:"

// replaces reports whether the kernel got to know one after the other, be it that a
// disk was pulled out and put in again.
func (i identity) replaces(other identity) bool {
	return i.Boot != "" && i.Boot == other.Boot && i.Sequence != 0 && other.Sequence != 0 && i.Sequence != other.Sequence
}

// mayOverlap reports whether one may be the other, or a part of it.
func (i identity) mayOverlap(other identity) bool {
	parts := i.Part != "" && other.Part != "" && i.Part != other.Part
	return !parts && !i.differs(other) && !i.replaces(other)
}

// differs reports whether they are two disks for sure.
func (i identity) differs(other identity) bool {
	return i.ID != "" && other.ID != "" && i.ID != other.ID
}
