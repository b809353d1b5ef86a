package mountinfo

import "strings"

// A visibility computes which mounts of a table are visible.
type visibility struct {
	table  Table
	byID   map[int]int // positions
	at     map[attachment]bool
	hidden map[int]bool // results of isHidden
}

// An attachment is a path in a mount at which another mount is attached.
type attachment struct {
	parent int
	path   string
}

func newVisibility(t Table) *visibility {
	v := &visibility{
		table:  t,
		byID:   make(map[int]int, t.Len),
		at:     make(map[attachment]bool, t.Len),
		hidden: make(map[int]bool, t.Len),
	}
	for i := range t.Len {
		n := t.Node(i)
		v.byID[n.ID] = i
		v.at[attachment{n.Parent, n.Point}] = true
	}
	return v
}

// includes reports whether a lookup of the mount's mount point arrives at the mount.
func (v *visibility) includes(n Node) bool {
	covered := n.ID != n.Parent && v.at[attachment{n.ID, n.Point}]
	return !covered && !v.isHidden(n)
}

// isHidden reports whether another mount is in the way to the mount's mount point: on a
// directory above it in the same parent, or in the way to the parent.
func (v *visibility) isHidden(n Node) bool {
	if hidden, ok := v.hidden[n.ID]; ok {
		return hidden
	}
	v.hidden[n.ID] = true // ends the recursion if parents form a circle
	hidden := v.computeHidden(n)
	v.hidden[n.ID] = hidden
	return hidden
}

// computeHidden is isHidden without the stored results.
func (v *visibility) computeHidden(n Node) bool {
	at, ok := v.byID[n.Parent]
	if !ok || n.Parent == n.ID {
		return false
	}
	parent := v.table.Node(at)
	for dir := n.Point; dir != "/" && dir != parent.Point; {
		if dir = parentDir(dir); dir == "" {
			break
		}
		if v.at[attachment{n.Parent, dir}] {
			return true
		}
	}
	return v.isHidden(parent)
}

// parentDir returns the directory of a clean path, or "" for a name without a directory.
func parentDir(p string) string {
	switch at := strings.LastIndexByte(p, '/'); at {
	case -1:
		return ""
	case 0:
		return "/"
	default:
		return p[:at]
	}
}
