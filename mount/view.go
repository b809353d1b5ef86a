package mount

import (
	"iter"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
)

// A View is a mount table prepared for many questions: [Table.View] reads the table once,
// in time proportional to its length, and a question costs in proportion to its answer.
// A View never changes, does not follow the system's mounts, and is safe for concurrent
// use.
type View struct {
	table Table
	view  *mountinfo.View
}

// View derives a view from the table, which must not be changed afterwards.
func (t Table) View() *View {
	return &View{table: t, view: mountinfo.NewView(mountinfo.Table{
		Len: len(t),
		Node: func(i int) mountinfo.Node {
			info := &t[i]
			return mountinfo.Node{ID: info.ID, Parent: info.Parent, Point: info.Mountpoint, Deleted: info.Deleted}
		},
		Content: func(i int) mountinfo.Content {
			info := &t[i]
			return mountinfo.Content{
				Device: kernel.Device{Major: info.Major, Minor: info.Minor},
				Root:   mountinfo.ContentRoot(info.FSType, info.Source, info.Root),
			}
		},
	})}
}

// Table returns the table that the view was derived from. It must not be changed.
func (v *View) Table() Table { return v.table }

// At returns the visible mount at path, if path is a mount point.
func (v *View) At(p string) (Info, bool) { return v.info(v.view.At(p)) }

// Containing returns the visible mount that path is in. It resolves no symbolic link.
func (v *View) Containing(p string) (Info, bool) { return v.info(v.view.Containing(p)) }

func (v *View) info(i int, ok bool) (Info, bool) {
	if !ok {
		return Info{}, false
	}
	return v.table[i], true
}

// Refs returns the other mount points at which the content at path is visible, sorted,
// without duplicates.
func (v *View) Refs(p string) []string { return v.view.References(p) }

// Origins returns the paths to the content of the mount at target through other visible
// mounts: the possible sources of a bind mount. The mount with the outermost root of the
// file system comes first. A removed content has no origins. The sequence computes each path
// when the caller requests it.
func (v *View) Origins(target string) iter.Seq[string] { return v.view.Origins(target) }

// OriginsBelow returns those of [View.Origins] that are dir or below it, in the order of
// the mounts' mount points where mounts show the same.
func (v *View) OriginsBelow(target, dir string) iter.Seq[string] {
	return v.view.OriginsBelow(target, dir)
}
