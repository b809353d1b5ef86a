package mountinfo

import (
	"iter"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/mount/internal/kernel"
)

// A Node is the part of a mount table entry that visibility depends on.
type Node struct {
	ID, Parent int
	Point      string // mount point
	Deleted    bool   // the root was removed
}

// A Table is the mount table of a [View], in any representation. The view calls its functions
// with positions from 0 to Len-1, and copies nothing.
type Table struct {
	Len     int
	Node    func(i int) Node
	Content func(i int) Content
}

// A View answers questions about a mount table. Its methods return the positions of mounts
// in the table. A view is safe for concurrent use.
type View struct {
	table Table
	// top holds the visible mount at each mount point.
	top map[string]int
	// shown holds the visible mounts of each content, in the order of the table. Mounts of
	// removed directories are left out.
	shown map[Content][]int
	// shownByPoint is shown, in the order of the mount points.
	shownByPoint func() map[Content][]int
}

// NewView returns a view of a mount table, which must not change afterwards.
func NewView(t Table) *View {
	v := &View{table: t, top: make(map[string]int, t.Len), shown: map[Content][]int{}}
	visible := newVisibility(t)
	for i := range t.Len {
		if n := t.Node(i); visible.includes(n) {
			v.top[n.Point] = i
		}
	}
	for i := range t.Len {
		if n := t.Node(i); !n.Deleted && v.isTop(n) {
			c := t.Content(i)
			v.shown[c] = append(v.shown[c], i)
		}
	}
	v.shownByPoint = sync.OnceValue(v.sortByPoint)
	return v
}

// ViewEntries returns a view of entries.
func ViewEntries(entries []Entry) *View {
	return NewView(Table{
		Len: len(entries),
		Node: func(i int) Node {
			e := &entries[i]
			return Node{ID: e.ID, Parent: e.Parent, Point: e.Mountpoint, Deleted: e.Deleted}
		},
		Content: func(i int) Content {
			e := &entries[i]
			return Content{kernel.Device{Major: e.Major, Minor: e.Minor}, ContentRoot(e.FSType, e.Source, e.Root)}
		},
	})
}

// isTop reports whether a mount is the visible one at its mount point.
func (v *View) isTop(n Node) bool {
	top, ok := v.top[n.Point]
	return ok && v.table.Node(top).ID == n.ID
}

// point returns the mount point of a mount.
func (v *View) point(i int) string { return v.table.Node(i).Point }

// sortByPoint returns v.shown with the mounts of each content in the order of their mount
// points.
func (v *View) sortByPoint() map[Content][]int {
	sorted := make(map[Content][]int, len(v.shown))
	for c, mounts := range v.shown {
		sorted[c] = slices.SortedStableFunc(slices.Values(mounts), func(a, b int) int {
			return strings.Compare(v.point(a), v.point(b))
		})
	}
	return sorted
}

// At returns the visible mount at a mount point.
func (v *View) At(p string) (i int, ok bool) {
	i, ok = v.top[p]
	return i, ok
}

// Containing returns the visible mount that a path is in. It resolves no symbolic link.
func (v *View) Containing(p string) (i int, ok bool) {
	for {
		if i, ok := v.top[p]; ok {
			return i, true
		}
		if p == "/" || !strings.HasPrefix(p, "/") {
			return 0, false
		}
		p = path.Dir(p)
	}
}

// References returns the other mount points at which the content at a path is visible,
// sorted, without duplicates.
func (v *View) References(p string) []string {
	in, ok := v.Containing(p)
	if !ok {
		return nil
	}
	return v.ReferencesIn(in, p)
}

// ReferencesIn is [View.References] for a path in a known mount, which another mount may
// hide.
func (v *View) ReferencesIn(in int, p string) []string {
	mount, content := v.table.Node(in), v.table.Content(in)
	rest, ok := CutDir(mount.Point, p)
	if !ok {
		return nil
	}
	if rest != "" {
		content.Root = strings.TrimRight(content.Root, "/") + path.Join("/", rest)
	}
	var refs []string
	for i := range v.showing(content, mount.Deleted) {
		if n := v.table.Node(i); n.Point != p && v.isTop(n) {
			refs = append(refs, n.Point)
		}
	}
	slices.Sort(refs)
	return slices.Compact(refs)
}

// showing returns the mounts that show a content. For a removed content, which is rare, it
// searches the table.
func (v *View) showing(c Content, deleted bool) iter.Seq[int] {
	if !deleted {
		return slices.Values(v.shown[c])
	}
	return func(yield func(int) bool) {
		for i := range v.table.Len {
			if v.table.Node(i).Deleted && v.table.Content(i) == c && !yield(i) {
				return
			}
		}
	}
}

// Origins returns the paths to the content of the mount at target through other visible
// mounts, the mount with the outermost root first. A removed content has none.
func (v *View) Origins(target string) iter.Seq[string] {
	return v.origins(target, func(c Content, rest string, yield func(int) bool) bool {
		return yieldAll(v.shown[c], yield)
	})
}

// OriginsBelow returns those of [View.Origins] that are dir or below it. Origins through
// mounts with one content are in the order of the mount points.
func (v *View) OriginsBelow(target, dir string) iter.Seq[string] {
	return v.origins(target, func(c Content, rest string, yield func(int) bool) bool {
		mounts := v.shownByPoint()[c]
		for above := path.Dir(dir); above != dir; above = path.Dir(above) {
			_, leads := CutDir(dir, path.Join(above, rest))
			if leads && !yieldAll(v.atPoint(mounts, above), yield) {
				return false
			}
			if above == "/" || above == "." {
				break
			}
		}
		return yieldAll(v.atPoint(mounts, dir), yield) && yieldAll(v.belowPoint(mounts, dir), yield)
	})
}

// origins returns the paths to the content of the mount at target. For each directory above
// the content, candidates yields mounts that show the directory; rest is the path of the
// content in the directory. candidates reports whether yield accepts more.
func (v *View) origins(target string, candidates func(c Content, rest string, yield func(int) bool) bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		top, ok := v.top[target]
		if !ok || v.table.Node(top).Deleted {
			return
		}
		at, content := v.table.Node(top), v.table.Content(top)
		for _, dir := range dirsTo(content.Root) {
			rest, _ := CutDir(dir, content.Root)
			more := candidates(Content{content.Device, dir}, rest, func(i int) bool {
				n := v.table.Node(i)
				origin := path.Join(n.Point, rest)
				in, ok := v.Containing(origin)
				hidden := !ok || v.table.Node(in).ID != n.ID // by another mount on the way
				return n.ID == at.ID || hidden || yield(origin)
			})
			if !more {
				return
			}
		}
	}
}

// dirsTo returns the directories above a root, the outermost first, and the root itself.
func dirsTo(root string) []string {
	dirs := []string{root}
	if strings.HasPrefix(root, "/") && root != "/" {
		dirs = append(dirs, "/")
	}
	for i := 1; i < len(root)-1; i++ {
		if root[i] == '/' {
			dirs = append(dirs, root[:i])
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return len(a) - len(b) })
	return dirs
}

// yieldAll yields all mounts, and reports whether yield accepts more.
func yieldAll(mounts []int, yield func(int) bool) bool {
	for _, i := range mounts {
		if !yield(i) {
			return false
		}
	}
	return true
}

// atPoint returns the mounts at a mount point. The mounts must be in the order of their
// mount points.
func (v *View) atPoint(mounts []int, p string) []int {
	begin := v.searchPoint(mounts, p)
	end := begin
	for end < len(mounts) && v.point(mounts[end]) == p {
		end++
	}
	return mounts[begin:end]
}

// belowPoint returns the mounts strictly below a directory. The mounts must be in the order
// of their mount points.
func (v *View) belowPoint(mounts []int, dir string) []int {
	prefix := strings.TrimSuffix(dir, "/") + "/"
	begin := v.searchPoint(mounts, prefix)
	end := begin
	for end < len(mounts) && strings.HasPrefix(v.point(mounts[end]), prefix) {
		end++
	}
	if dir == "/" && begin < end && v.point(mounts[begin]) == "/" {
		begin++
	}
	return mounts[begin:end]
}

// searchPoint returns the position of the first mount at or after a path.
func (v *View) searchPoint(mounts []int, p string) int {
	at, _ := slices.BinarySearchFunc(mounts, p, func(i int, p string) int {
		return strings.Compare(v.point(i), p)
	})
	return at
}
