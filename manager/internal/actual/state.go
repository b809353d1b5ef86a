package actual

import (
	"errors"

	"github.com/volumekit/volumekit/volume"
)

// A State is the certainty about an attachment, a mount or a set-up volume.
type State int

const (
	Absent    State = iota // does not exist
	Uncertain              // may exist: treated as existing, and as needing a new set-up
	Present                // exists and is in order
)

func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Present:
		return "present"
	}
	return "uncertain"
}

// StateAfterUp returns the state after an attach, mount or set-up.
func StateAfterUp(before State, err error) State {
	switch {
	case err == nil:
		return Present
	case volume.KindOf(err) == volume.Uncertain, errors.Is(err, volume.ErrAlreadyMounted):
		return Uncertain
	}
	return before
}

// StateAfterDown returns the state after a detach, unmount or tear-down: uncertain after a
// failure.
func StateAfterDown(err error) State {
	if err == nil {
		return Absent
	}
	return Uncertain
}
