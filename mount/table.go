package mount

import "slices"

// A Table is a mount table, such as [Interface.List] returns. Each method derives a
// [View] from the table; for more than one question call [Table.View] once.
type Table []Info

// At returns the visible mount at path, if path is a mount point.
func (t Table) At(p string) (Info, bool) { return t.View().At(p) }

// Containing returns the visible mount that path is in. It resolves no symbolic link.
func (t Table) Containing(p string) (Info, bool) { return t.View().Containing(p) }

// Refs returns the other mount points at which the content at path is visible, sorted, without
// duplicates.
func (t Table) Refs(p string) []string { return t.View().Refs(p) }

// Origins returns the paths to the content of the mount at target through other visible mounts,
// see [View.Origins].
func (t Table) Origins(target string) []string { return slices.Collect(t.View().Origins(target)) }
