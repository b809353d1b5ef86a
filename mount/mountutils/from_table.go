package mountutils

import (
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount"
	peer "k8s.io/mount-utils"
)

// table returns the peer's list as a mount table.
func (f *Peer) table() (mount.Table, error) {
	points, err := f.peer.List()
	if err != nil {
		return nil, err
	}
	table := make(mount.Table, len(points))
	b := tableBuilder{top: map[string]int{}, minors: map[string]uint32{}}
	_, escaped := f.peer.(*peer.Mounter)
	for i, point := range points {
		if escaped {
			point.Path, point.Device = unescape.Replace(point.Path), unescape.Replace(point.Device)
		}
		table[i] = b.info(point)
	}
	return table, nil
}

// unescape reverses the kernel's escapes; the peer's own mounter passes them through.
var unescape = strings.NewReplacer(`\011`, "\t", `\012`, "\n", `\040`, " ", `\043`, "#", `\134`, `\`)

// A tableBuilder derives the fields that a peer does not report.
type tableBuilder struct {
	lastID int
	top    map[string]int // the latest mount at each path
	minors map[string]uint32
}

func (b *tableBuilder) info(point peer.MountPoint) mount.Info {
	at := path.Clean(point.Path)
	b.lastID++
	info := mount.Info{
		ID: b.lastID, Parent: b.parent(at),
		Minor: b.minor(point), Root: "/", Mountpoint: at,
		Flags: flagsOf(point.Opts), Options: slices.Clone(point.Opts),
		FSType: point.Type, Source: point.Device, SuperOptions: optionlist.JoinLabels(slices.Clone(point.Opts)),
	}
	b.top[at] = info.ID
	return info
}

// parent returns the mount that contains a path: later mounts come later in the list.
func (b *tableBuilder) parent(at string) int {
	for {
		if id, ok := b.top[at]; ok {
			return id
		}
		if at == "/" || at == "." {
			return 0
		}
		at = path.Dir(at)
	}
}

// minor returns the same number for all mounts of a device or an export, and a new one for
// every other file system.
func (b *tableBuilder) minor(point peer.MountPoint) uint32 {
	key := point.Type + " " + point.Device
	if !strings.ContainsAny(point.Device, "/:") {
		return uint32(1<<19 + b.lastID)
	}
	if _, known := b.minors[key]; !known {
		b.minors[key] = uint32(len(b.minors) + 1)
	}
	return b.minors[key]
}

// flagsOf returns the flags among the options of a listed mount.
func flagsOf(options []string) mount.Flags {
	var flags mount.Flags
	atime := false
	for _, option := range options {
		if o, err := mount.ParseOptions([]string{option}, allowAll); err == nil {
			flags = o.Apply(flags)
			atime = atime || (o.Set|o.Clear)&atimeFlags != 0
		}
	}
	// The kernel prints no option for strictatime, and one for each of the others.
	if !atime && len(options) > 0 && (options[0] == "rw" || options[0] == "ro") {
		flags |= mount.StrictAtime
	}
	return flags
}

const atimeFlags = mount.NoAtime | mount.StrictAtime
