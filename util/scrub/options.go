package scrub

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/internal/input"
)

// Options configure the emptying of a root. The zero value empties it as fast as possible.
type Options struct {
	// Keep lists names at the top of the root that stay, with their content.
	Keep []string
	// Workers is the number of parallel workers. 0 chooses by the file system: few on a
	// disk, more on a network file system.
	Workers int
	// PerSecond limits the entries removed per second. 0: no limit.
	PerSecond int
	// Trash, if not empty, is a name at the top of the root: all other entries are moved
	// into a directory of that name, which is quick, to be deleted later by DeleteTrash,
	// or by Empty without Trash. Mounts below a moved directory move along.
	Trash string
}

// Counts are the numbers of removed entries; with Options.Trash, of moved ones.
type Counts struct {
	Files       int64 // all entries other than directories
	Directories int64
}

const (
	lostAndFound = "lost+found"
	maxWorkers   = 256
)

func (o Options) check() error {
	for _, name := range o.Keep {
		if reason := input.CheckName(name); reason != "" {
			return operation.Refuse("Keep", name, reason)
		}
	}
	switch {
	case o.Workers < 0 || o.Workers > maxWorkers:
		return operation.Refuse("Workers", o.Workers, fmt.Sprintf("must be from 0 to %d", maxWorkers))
	case o.PerSecond < 0:
		return operation.Refuse("PerSecond", o.PerSecond, "must be at least 0")
	case o.Trash == "":
		return nil
	}
	reason := input.CheckName(o.Trash)
	if o.Trash == lostAndFound || slices.Contains(o.Keep, o.Trash) {
		reason = "must not be in Keep, and not lost+found"
	}
	if reason != "" {
		return operation.Refuse("Trash", o.Trash, reason)
	}
	return nil
}

// A fate decides about an entry at the top of the root.
type fate int

const (
	deleted fate = iota
	emptied      // a directory stays and loses its content; other entries are deleted
	kept
)

// fate returns the fate of a name for Empty without Trash, and for Check.
func (o Options) fate(name string) fate {
	switch {
	case slices.Contains(o.Keep, name):
		return kept
	case name == lostAndFound:
		return emptied
	}
	return deleted
}

// fateWhenMoving returns the fate of a name when the other entries move into the trash.
func (o Options) fateWhenMoving(name string) fate {
	if name == o.Trash {
		return kept
	}
	return o.fate(name)
}

// fateInTrashOnly returns the fate of a name when only the trash is deleted.
func (o Options) fateInTrashOnly(name string) fate {
	if name == o.Trash {
		return deleted
	}
	return kept
}
