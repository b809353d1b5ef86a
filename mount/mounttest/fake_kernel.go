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

// A kernel is the state that mounting changes.
type kernel struct {
	files   Files
	mounts  []*mounted        // in the order in which they were attached
	devices map[string]uint32 // the minor number of each block device mounted so far
	lastID  int
	minor   uint32 // the last one of an anonymous device
	groups  int    // the last peer group
}

// A mounted is a mount: a line of the table, but for its tags, and what is behind it.
type mounted struct {
	mount.Info
	isFile bool
	real   fs.FileInfo // the real directory or file at its root, if it has one
	peers  peers
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
		Options: tableOptions(0, false),
		FSType:  "fake", Source: "fake", SuperOptions: []string{"rw"},
	}
	return kernel{
		files:   systemFiles{},
		mounts:  []*mounted{{Info: root}},
		devices: map[string]uint32{},
		lastID:  rootID,
		minor:   realMinor,
	}
}

// isReal reports whether a mount shows the real file system. If it does, its
// root is a path there.
func (m *mounted) isReal() bool { return m.Major == 0 && m.Minor == realMinor }

// setFlags gives the mount its flags, and IDs that are mapped or not.
func (m *mounted) setFlags(flags mount.Flags, idMapped bool) {
	m.Flags, m.Options = flags, tableOptions(flags, idMapped)
}

func (m *mounted) idMapped() bool { return slices.Contains(m.Options, idMapped) }

// inside returns where in the mount's file system a path in the mount leads.
func (m *mounted) inside(p string) string { return path.Join(m.Root, rest(m.Mountpoint, p)) }

// outside returns the path at which the mount shows a place of its file system,
// if it does.
func (m *mounted) outside(place string) (p string, ok bool) {
	if !isBelow(m.Root, place) {
		return "", false
	}
	return path.Join(m.Mountpoint, rest(m.Root, place)), true
}

// isBelow reports whether p is dir or in it.
func isBelow(dir, p string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// rest returns what of p, which is below dir, comes after it.
func rest(dir, p string) string { return strings.TrimPrefix(strings.TrimPrefix(p, dir), "/") }

// isDevice reports whether a file system's source is a block device.
func isDevice(source string) bool { return strings.HasPrefix(source, "/dev/") }

// newID returns the ID of a new mount. IDs are not used again.
func (k *kernel) newID() int {
	k.lastID++
	return k.lastID
}

// attached returns the mount that a lookup in the mount parent is led to at p, or
// nil.
func (k *kernel) attached(parent int, p string) *mounted {
	for _, m := range k.mounts {
		if m.Parent == parent && m.Mountpoint == p {
			m.look(k.files)
			return m
		}
	}
	return nil
}

// in returns the mounts that are attached in or on a mount.
func (k *kernel) in(parent *mounted) []*mounted {
	var in []*mounted
	for _, m := range k.mounts {
		if m.Parent == parent.ID {
			in = append(in, m)
		}
	}
	return in
}

// device returns the numbers of a file system that is to be mounted: of a block
// device the same every time, of any other file system new ones.
func (k *kernel) device(source string) (major, minor uint32) {
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

// look notes if what a mount shows of the real file system is no longer there.
func (m *mounted) look(files Files) {
	if m.real != nil && !m.Deleted {
		now, err := files.Lstat(m.Root)
		m.Deleted = isGone(err) || err == nil && !files.SameFile(m.real, now)
	}
}

// isGone reports whether an error of Lstat means that nothing is there.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// table returns the mount table without sharing memory with it.
func (k *kernel) table() mount.Table {
	var table mount.Table
	for _, m := range k.mounts {
		m.look(k.files)
		table = append(table, m.line())
	}
	return table
}

// line returns the mount's line of the table, to keep.
func (m *mounted) line() mount.Info {
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

// idMapped is how mountinfo tells that a mount has an ID map.
const idMapped = "idmapped"

// tableOptions returns flags as mountinfo prints them.
func tableOptions(flags mount.Flags, mapped bool) []string {
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
	if mapped {
		options = append(options, idMapped)
	}
	return options
}

func readOnlyOption(flags mount.Flags) string {
	if flags&mount.ReadOnly != 0 {
		return "ro"
	}
	return "rw"
}
