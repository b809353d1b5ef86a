package mounttest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// A kernel is the state that mounts change.
type kernel struct {
	files   Files
	mounts  []*fakeMount      // in the order in which they were attached
	devices map[string]uint32 // the minor number of each block device mounted so far
	lastID  int
	minor   uint32 // the last one of an anonymous device
	groups  int    // the last peer group
}

// A fakeMount is a mount: its entry of the table without tags, and its file system.
type fakeMount struct {
	mount.Info
	isFile bool
	real   fs.FileInfo // the real directory or file at its root, if it has one
	peers  peerGroups
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
		files:   systemFiles{},
		mounts:  []*fakeMount{{Info: root}},
		devices: map[string]uint32{},
		lastID:  rootID,
		minor:   realMinor,
	}
}

// isReal reports whether a mount shows the real file system. If it does, its
// root is a path there.
func (m *fakeMount) isReal() bool { return m.Major == 0 && m.Minor == realMinor }

// setFlags gives the mount its flags, and IDs that are mapped or not.
func (m *fakeMount) setFlags(flags mount.Flags, hasIDMap bool) {
	m.Flags, m.Options = flags, tableOptions(flags)
	if hasIDMap {
		m.Options = append(m.Options, idMapped)
	}
}

func (m *fakeMount) isIDMapped() bool { return slices.Contains(m.Options, idMapped) }

// rootPath returns the path in the mount's file system for a path in the mount.
func (m *fakeMount) rootPath(p string) string {
	return path.Join(m.Root, relativePath(m.Mountpoint, p))
}

// visiblePath returns the path at which the mount shows a path of its file system, if it does.
func (m *fakeMount) visiblePath(place string) (p string, ok bool) {
	if !isBelow(m.Root, place) {
		return "", false
	}
	return path.Join(m.Mountpoint, relativePath(m.Root, place)), true
}

// isBelow reports whether p is dir or below it.
func isBelow(dir, p string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// relativePath returns the part of p after dir, which p is below.
func relativePath(dir, p string) string { return strings.TrimPrefix(strings.TrimPrefix(p, dir), "/") }

// isDevice reports whether a file system's source is a block device.
func isDevice(source string) bool { return strings.HasPrefix(source, "/dev/") }

// newID returns the ID of a new mount. IDs are not reused.
func (k *kernel) newID() int {
	k.lastID++
	return k.lastID
}

// mountAt returns the mount that a lookup in the mount parent arrives at for p, or nil.
func (k *kernel) mountAt(parent int, p string) *fakeMount {
	for _, m := range k.mounts {
		if m.Parent == parent && m.Mountpoint == p {
			m.markDeleted(k.files)
			return m
		}
	}
	return nil
}

// children returns the mounts that are attached in or on a mount.
func (k *kernel) children(parent *fakeMount) []*fakeMount {
	var children []*fakeMount
	for _, m := range k.mounts {
		if m.Parent == parent.ID {
			children = append(children, m)
		}
	}
	return children
}

// deviceOf returns the numbers of a file system that is to be mounted: the same ones each time
// for a block device, new ones for any other file system.
func (k *kernel) deviceOf(source string) (major, minor uint32) {
	source = k.deviceName(source)
	if !isDevice(source) {
		k.minor++
		return 0, k.minor
	}
	if _, known := k.devices[source]; !known {
		k.devices[source] = uint32(len(k.devices))
	}
	return deviceMajor, k.devices[source]
}

// markDeleted marks a mount whose real root has been removed.
func (m *fakeMount) markDeleted(files Files) {
	if m.real != nil && !m.Deleted {
		now, err := files.Lstat(m.Root)
		m.Deleted = isMissing(err) || err == nil && !files.SameFile(m.real, now)
	}
}

// isMissing reports whether an error of Lstat means that the file does not exist.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// table returns a copy of the mount table.
func (k *kernel) table() mount.Table {
	var table mount.Table
	for _, m := range k.mounts {
		m.markDeleted(k.files)
		table = append(table, m.entry())
	}
	return table
}

// entry returns a copy of the mount's entry of the table.
func (m *fakeMount) entry() mount.Info {
	line := m.Info
	line.Options = slices.Clone(m.Options)
	line.SuperOptions = slices.Clone(m.SuperOptions)
	line.Tags = m.peers.tags()
	return line
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

// idMapped is mountinfo's option of a mount with an ID map.
const idMapped = "idmapped"

// tableOptions returns flags in the format of mountinfo.
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
