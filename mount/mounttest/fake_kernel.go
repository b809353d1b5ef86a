package mounttest

import (
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// A kernel is the state that mounting changes.
type kernel struct {
	table   mount.Table
	files   map[int]bool      // the mounts, by ID, that show a file and no directory
	devices map[string]uint32 // the minor number of each block device mounted so far
	lastID  int
	minor   uint32 // the last one of an anonymous device
}

// The real file system is device 0:1. Device numbers of block devices have a
// major number of their own, as in Linux.
const (
	realMinor   = 1
	rootID      = 1
	deviceMajor = 259
)

func newKernel() kernel {
	root := mount.Info{
		ID: rootID, Minor: realMinor, Root: "/", Mountpoint: "/",
		Options: tableOptions(0),
		FSType:  "fake", Source: "fake", SuperOptions: []string{"rw"},
	}
	return kernel{
		table:   mount.Table{root},
		files:   map[int]bool{},
		devices: map[string]uint32{},
		lastID:  rootID,
		minor:   realMinor,
	}
}

// isReal reports whether a mount shows the real file system. If it does, its
// root is a path there.
func isReal(info mount.Info) bool { return info.Major == 0 && info.Minor == realMinor }

// isDevice reports whether a file system's source is a block device.
func isDevice(source string) bool { return strings.HasPrefix(source, "/dev/") }

// attach adds a mount. IDs are not used again.
func (k *kernel) attach(info mount.Info, isFile bool) {
	k.lastID++
	info.ID = k.lastID
	if isFile {
		k.files[info.ID] = true
	}
	k.table = append(k.table, info)
}

func (k *kernel) detach(id int) {
	delete(k.files, id)
	k.table = slices.DeleteFunc(k.table, func(info mount.Info) bool { return info.ID == id })
}

// attached returns the mount that a lookup in the mount parent is led to at p.
func (k *kernel) attached(parent int, p string) (mount.Info, bool) {
	for _, info := range k.table {
		if info.Parent == parent && info.Mountpoint == p {
			return info, true
		}
	}
	return mount.Info{}, false
}

// hasMounts reports whether anything is mounted in or on the mount.
func (k *kernel) hasMounts(id int) bool {
	return slices.ContainsFunc(k.table, func(info mount.Info) bool { return info.Parent == id })
}

// device returns the numbers of a file system that is to be mounted: of a block
// device the same every time, of any other file system new ones.
func (k *kernel) device(source string) (major, minor uint32) {
	if !isDevice(source) {
		k.minor++
		return 0, k.minor
	}
	if _, known := k.devices[source]; !known {
		k.devices[source] = uint32(len(k.devices))
	}
	return deviceMajor, k.devices[source]
}

// list returns the table without sharing memory with it.
func (k *kernel) list() []mount.Info {
	list := slices.Clone(k.table)
	for i, info := range list {
		list[i].Options = slices.Clone(info.Options)
		list[i].SuperOptions = slices.Clone(info.SuperOptions)
	}
	return list
}

// tableFlags lists the flags that mountinfo prints by name, in its order.
var tableFlags = []struct {
	flag mount.Flags
	name string
}{
	{mount.NoSUID, "nosuid"},
	{mount.NoDev, "nodev"},
	{mount.NoExec, "noexec"},
	{mount.NoAtime, "noatime"},
	{mount.NoDirAtime, "nodiratime"},
}

// tableOptions returns flags as mountinfo prints them.
func tableOptions(flags mount.Flags) []string {
	options := []string{readOnlyOption(flags)}
	for _, f := range tableFlags {
		if flags&f.flag != 0 {
			options = append(options, f.name)
		}
	}
	if flags&(mount.NoAtime|mount.StrictAtime) == 0 {
		options = append(options, "relatime")
	}
	if flags&mount.NoSymFollow != 0 {
		options = append(options, "nosymfollow")
	}
	return options
}

func readOnlyOption(flags mount.Flags) string {
	if flags&mount.ReadOnly != 0 {
		return "ro"
	}
	return "rw"
}
