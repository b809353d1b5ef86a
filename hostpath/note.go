package hostpath

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/volumekit/volumekit/util"
)

// A note records what SetUp has mounted. The mount table has neither the symbolic links on the way
// nor, once the file is renamed or removed, the path.
type note struct {
	Path    string   `json:"path"`              // as source.path
	Options []string `json:"options,omitempty"` // of the specification and the pod
	Boot    string   `json:"boot,omitempty"`    // the start of the system for which mounts and files are known
	mounted
	// Next is what a renewal mounts instead. Until then mounts below may be undone in part.
	Next *mounted `json:"next,omitempty"`
}

// A mounted is what a mount was made of. Zero values are not known.
type mounted struct {
	Source    string `json:"source"` // without symbolic links
	File      fileID `json:"file,omitzero"`
	Mount     uint64 `json:"mount,omitempty"`     // its unique ID, since Linux 6.8
	Submounts bool   `json:"submounts,omitempty"` // mounts below it may be the volume's
}

// isAt reports whether a file, as found in a volume's directory, is in the mount. Without the mount's
// ID another mount of the same file, or of a later one with its number, is taken for it.
func (m mounted) isAt(there found) bool {
	switch {
	case m.File == (fileID{}):
		return false
	case m.Mount != 0:
		return there.mount == m.Mount
	}
	return there.id == m.File
}

// readNote returns the note about the volume at dir, or an empty one with the reason.
func (p *Plugin) readNote(ctx context.Context, dir string) (note, error) {
	record, err := p.notes.Read(ctx, dir)
	if err != nil {
		return note{}, err
	}
	var n note
	if err := json.Unmarshal(record, &n); err != nil {
		return note{}, err
	}
	return n, nil
}

// writeNote writes the note, where notes are possible.
func (p *Plugin) writeNote(ctx context.Context, dir string, n note) error {
	text, err := json.Marshal(n)
	if err == nil {
		err = p.notes.Write(ctx, dir, text)
	}
	return noteError(err)
}

func (p *Plugin) removeNote(ctx context.Context, dir string) error {
	return noteError(p.notes.Remove(ctx, dir))
}

func noteError(err error) error {
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return util.Transient(fmt.Errorf("the record of the volume: %w", err))
}

// writtenFor returns the path in the specification of a volume by its note.
func (p *Plugin) writtenFor(n note) (string, bool) {
	if _, below := p.roots.Containing(n.Source); !below {
		return "", false
	}
	if written, ok := p.roots.Written(n.Path); ok {
		return written, true
	}
	return p.links.Written(n.Path)
}

// existingNote returns the note as it is about the mount at dir, after a renewal that died, too, and
// whether it is about that mount.
func (p *Plugin) existingNote(ctx context.Context, dir string, n note) (_ note, isOwn bool, err error) {
	next := n.Next
	if !n.Submounts { // then the mount is whole as long as it is there
		n.Next = nil
	}
	if n.Boot == "" || n.Boot != p.boot {
		n.Next = nil
		return n, false, nil
	}
	there, err := p.lookInTime(ctx, dir)
	switch {
	case errors.Is(err, errNoAnswer):
		return n, false, err
	case err == nil && n.isAt(there):
		return n, true, nil
	case err == nil && next != nil && next.isAt(there):
		n.mounted, n.Next = *next, nil
		return n, true, nil
	}
	n.Next = nil
	return n, false, nil
}

// An existing is what is mounted in a volume's directory before SetUp.
type existing struct {
	mounted bool
	note    note // about a volume of the same path; empty: there is none
	isOwn   bool // the mount is the noted one
}

// existing returns what is mounted at dir.
func (m *mounter) existing(ctx context.Context, dir string) (existing, error) {
	mounted, err := m.plugin.config.Mounter.IsMountPoint(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return existing{}, util.Transient(err)
	}
	if !mounted {
		return existing{}, nil
	}
	n, _ := m.plugin.readNote(ctx, dir) // the mount is not this volume's without one
	if _, below := m.plugin.roots.Containing(n.Source); n.Path != m.source.path || !below {
		return existing{mounted: true}, nil
	}
	n, isOwn, err := m.plugin.existingNote(ctx, dir, n)
	return existing{mounted: true, note: n, isOwn: isOwn}, err
}

// noteFor returns the note of a volume with a file, before its mount.
func (m *mounter) noteFor(there found, readOnly bool) note {
	return note{
		Path: m.source.path, Options: m.optionsFor(readOnly), Boot: m.plugin.boot,
		mounted: mounted{Source: there.path, File: there.id, Submounts: m.plugin.mayHaveSubmounts()},
	}
}

// noteMount writes the note about the mount at dir, unless it would have nothing that the mount table
// may ever lack.
func (m *mounter) noteMount(ctx context.Context, dir string, there found, readOnly bool) error {
	n := m.noteFor(there, readOnly)
	at, err := m.plugin.lookInTime(ctx, dir)
	switch {
	case errors.Is(err, errNoAnswer):
		return err
	case err == nil && at.id == there.id:
		n.Mount = at.mount
	default: // another mount has come meanwhile, or the mounter mounts nothing
		n.File = fileID{}
	}
	if n.File == (fileID{}) && n.Path == n.Source {
		return nil
	}
	return m.plugin.writeNote(ctx, dir, n)
}

// optionsFor returns the options that the specification and the pod ask for.
func (m *mounter) optionsFor(readOnly bool) []string {
	options := slices.Clone(m.options)
	if m.readOnly || readOnly {
		options = append(options, "ro")
	}
	return options
}
