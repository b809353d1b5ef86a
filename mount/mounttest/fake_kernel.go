package mounttest

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// A kernel is the state that mounting changes.
type kernel struct {
	table   mount.Table
	trees   map[int]tree      // what each mount shows, by ID
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
		trees:   map[int]tree{rootID: {Info: root}},
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
func (k *kernel) attach(t tree) {
	k.lastID++
	t.ID = k.lastID
	k.trees[t.ID] = t
	k.table = append(k.table, t.Info)
}

// tree returns what a mount of the table shows now.
func (k *kernel) tree(info mount.Info) tree {
	t := k.trees[info.ID]
	t.Info = info
	return t
}

func (k *kernel) detach(id int) {
	delete(k.trees, id)
	k.table = slices.DeleteFunc(k.table, func(info mount.Info) bool { return info.ID == id })
}

// attached returns the mount that a lookup in the mount parent is led to at p.
func (k *kernel) attached(parent int, p string) (mount.Info, bool) {
	for i := range k.table {
		if info := &k.table[i]; info.Parent == parent && info.Mountpoint == p {
			k.lookAt(info)
			return *info, true
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

// lookAt marks a mount of real files if what it shows is no longer there.
func (k *kernel) lookAt(info *mount.Info) {
	if tree := k.trees[info.ID]; tree.real != nil && !info.Deleted {
		now, err := os.Lstat(native(info.Root))
		info.Deleted = isGone(err) || err == nil && !os.SameFile(tree.real, now)
	}
}

func (k *kernel) lookAtAll() {
	for i := range k.table {
		k.lookAt(&k.table[i])
	}
}

// isGone reports whether an error of Lstat means that nothing is there.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// list returns the table without sharing memory with it.
func (k *kernel) list() []mount.Info {
	k.lookAtAll()
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
