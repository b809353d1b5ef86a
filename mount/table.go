package mount

import (
	"path"
	"slices"
	"strings"
)

// A Table is a mount table, such as [Interface.List] returns.
type Table []Info

// At returns the mount that is visible at path, if path is a mount point.
func (t Table) At(p string) (Info, bool) {
	info, ok := newVisibility(t).top[p]
	return info, ok
}

// Containing returns the mount that path is in or at. Path is taken as it is
// written; a symbolic link in it is not known here.
func (t Table) Containing(p string) (Info, bool) {
	return newVisibility(t).containing(p)
}

// Refs returns the other mount points at which what is at path is visible,
// sorted, each once.
func (t Table) Refs(p string) []string {
	v := newVisibility(t)
	in, ok := v.containing(p)
	if !ok {
		return nil
	}
	return v.refs(in, p)
}

// Origins returns the paths at which the content of the mount at target can be
// reached through other visible mounts, the mount with the most of the file
// system first: where a bind mount came from, as far as the table still knows. If
// what is mounted has been removed there are none.
func (t Table) Origins(target string) []string {
	v := newVisibility(t)
	at, ok := v.top[target]
	if !ok || at.Deleted {
		return nil
	}
	through := slices.DeleteFunc(slices.Clone(t), func(info Info) bool { return !v.showsMore(info, at) })
	slices.SortStableFunc(through, func(a, b Info) int { return len(a.root()) - len(b.root()) })
	var origins []string
	for _, info := range through {
		rest, _ := below(info.root(), at.root())
		origin := path.Join(info.Mountpoint, rest)
		// Another mount on the way hides what this one has there.
		if in, ok := v.containing(origin); ok && in.ID == info.ID {
			origins = append(origins, origin)
		}
	}
	return origins
}

// below returns what of path comes after dir, and whether path is dir or in it.
func below(dir, p string) (rest string, ok bool) {
	if dir == "/" {
		return strings.TrimPrefix(p, "/"), strings.HasPrefix(p, "/")
	}
	rest, ok = strings.CutPrefix(p, dir)
	if !ok || rest != "" && rest[0] != '/' {
		return "", false
	}
	return strings.TrimPrefix(rest, "/"), true
}

// visibility tells which mounts of a table a path lookup still reaches.
type visibility struct {
	table  Table
	byID   map[int]Info
	at     map[place]bool
	shaded map[int]bool    // answers of inShade so far
	top    map[string]Info // the visible mount at each mount point
}

// A place is a path in a mount: where others are attached.
type place struct {
	parent int
	path   string
}

func newVisibility(t Table) *visibility {
	v := &visibility{
		table:  t,
		byID:   make(map[int]Info, len(t)),
		at:     make(map[place]bool, len(t)),
		shaded: make(map[int]bool, len(t)),
		top:    make(map[string]Info, len(t)),
	}
	for _, info := range t {
		v.byID[info.ID] = info
		v.at[place{info.Parent, info.Mountpoint}] = true
	}
	for _, info := range t {
		if v.visible(info) {
			v.top[info.Mountpoint] = info
		}
	}
	return v
}

// containing returns the mount that path is in or at.
func (v *visibility) containing(p string) (Info, bool) {
	for {
		if info, ok := v.top[p]; ok {
			return info, true
		}
		if p == "/" || !strings.HasPrefix(p, "/") {
			return Info{}, false
		}
		p = path.Dir(p)
	}
}

// refs returns the mount points, apart from path, of what is at path in a mount.
func (v *visibility) refs(in Info, p string) []string {
	rest, ok := below(in.Mountpoint, p)
	if !ok {
		return nil
	}
	in.Root = path.Join(in.Root, rest)
	var refs []string
	for _, info := range v.table {
		if info.Mountpoint != p && sameContent(info, in) && v.top[info.Mountpoint].ID == info.ID {
			refs = append(refs, info.Mountpoint)
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

// showsMore reports whether the other mount is visible, too, and shows what at
// shows.
func (v *visibility) showsMore(other, at Info) bool {
	_, ok := below(other.root(), at.root())
	return ok && other.ID != at.ID && !other.Deleted && other.Major == at.Major && other.Minor == at.Minor &&
		v.top[other.Mountpoint].ID == other.ID
}

// visible reports whether looking up the mount's mount point arrives at it.
func (v *visibility) visible(info Info) bool {
	covered := info.ID != info.Parent && v.at[place{info.ID, info.Mountpoint}]
	return !covered && !v.inShade(info)
}

// inShade reports whether a lookup is led away before it arrives at the place
// where the mount is attached: by a mount on a directory above it in the same
// parent, or because the parent itself is out of reach.
func (v *visibility) inShade(info Info) bool {
	if shaded, ok := v.shaded[info.ID]; ok {
		return shaded
	}
	v.shaded[info.ID] = true // a table whose parents form a circle shows none of them
	shaded := v.isInShade(info)
	v.shaded[info.ID] = shaded
	return shaded
}

func (v *visibility) isInShade(info Info) bool {
	parent, ok := v.byID[info.Parent]
	if !ok || info.Parent == info.ID {
		return false
	}
	for dir := info.Mountpoint; dir != "/" && dir != parent.Mountpoint; {
		dir = path.Dir(dir)
		if dir == "." {
			break
		}
		if v.at[place{info.Parent, dir}] {
			return true
		}
	}
	return v.inShade(parent)
}
