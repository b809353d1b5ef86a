package scrub

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Options are how to empty a root. The zero value empties it as fast as it can be.
type Options struct {
	// Keep are names directly in the root that stay, with all that is in them.
	Keep []string
	// Workers is how many directories are worked on at the same time. 0 is as many
	// as help: few on a disk, more where each step is a question to a server.
	Workers int
	// PerSecond limits the entries removed per second, if it is not 0.
	PerSecond int
	// Progress is told how far it has come: every Every (0: each second), and once
	// at the end. It is called on the caller's goroutine, so the call takes as long as
	// Progress does.
	Progress func(Counts)
	Every    time.Duration
	// Trash, if it is not empty, is a name directly in the root: all else there is
	// moved into a directory of that name, which is quick, and to be deleted later:
	// by DeleteTrash, or by Empty without Trash. What is mounted somewhere below what
	// is moved moves along.
	Trash string
}

// Counts are what has been removed; with Options.Trash, what has been moved.
type Counts struct {
	Files       int64 // and all else that is no directory
	Directories int64
	// Bytes is what the files held that had no other name. It is counted only for
	// the sake of Options.Progress: it costs a look at each file.
	Bytes int64
}

const (
	lostAndFound = "lost+found"
	maxName      = 255
	maxWorkers   = 256
)

func (o Options) check() error {
	for _, name := range o.Keep {
		if reason := badName(name); reason != "" {
			return &InputError{Field: "Keep", Value: name, Reason: reason}
		}
	}
	switch {
	case o.Workers < 0 || o.Workers > maxWorkers:
		return inputNumber("Workers", o.Workers)
	case o.PerSecond < 0:
		return inputNumber("PerSecond", o.PerSecond)
	case o.Every < 0:
		return &InputError{Field: "Every", Value: o.Every.String(), Reason: "negative"}
	case o.Trash == "":
		return nil
	}
	reason := badName(o.Trash)
	if o.Trash == lostAndFound || slices.Contains(o.Keep, o.Trash) {
		reason = "a name that stays"
	}
	if reason != "" {
		return &InputError{Field: "Trash", Value: o.Trash, Reason: reason}
	}
	return nil
}

func badName(name string) string {
	switch {
	case name == "":
		return "empty"
	case name == "." || name == "..":
		return "not the name of an entry"
	case strings.ContainsAny(name, "/\x00"):
		return "not one component of a path"
	case len(name) > maxName:
		return "too long"
	}
	return ""
}

// A fate is what becomes of an entry that is directly in the root.
type fate int

const (
	goes    fate = iota
	emptied      // a directory stays, without what is in it; all else goes
	stays
)

// fate is what Empty without Trash, and Check, think of a name.
func (o Options) fate(name string) fate {
	switch {
	case slices.Contains(o.Keep, name):
		return stays
	case name == lostAndFound:
		return emptied
	}
	return goes
}

// fateAside is for moving all else into the trash.
func (o Options) fateAside(name string) fate {
	if name == o.Trash {
		return stays
	}
	return o.fate(name)
}

// fateOfTrash is for deleting nothing else.
func (o Options) fateOfTrash(name string) fate {
	if name == o.Trash {
		return goes
	}
	return stays
}

func inputNumber(field string, value int) error {
	return &InputError{Field: field, Value: fmt.Sprint(value), Reason: "out of range"}
}
