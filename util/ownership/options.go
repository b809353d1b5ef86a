package ownership

import (
	"fmt"
	"time"
)

// Options say to whom to give a directory. Those with neither User nor Group ask for
// nothing.
type Options struct {
	// User and Group are the owners. Nil leaves what there is. Modes change for the
	// sake of a group alone.
	User, Group *int64
	// ReadOnly lets the group read, but not write.
	ReadOnly bool
	// Policy says whether to look at all there is. The zero value does.
	Policy Policy
	// Workers is how many work at the same time. 0 is as many as help: few on a disk,
	// more where each step is a question to a server.
	Workers int
	// Progress is told how far it has come: every Every (0: each second), and once
	// at the end. It is called on the caller's goroutine, so the call takes as long as
	// Progress does.
	Progress func(Counts)
	Every    time.Duration
}

// A Policy says how much to look at. Its values are those of a pod's
// fsGroupChangePolicy.
type Policy int

const (
	// Always looks at everything.
	Always Policy = iota
	// OnRootMismatch looks at the directory itself first, and at nothing else if that
	// is right.
	OnRootMismatch
)

// Counts are what has been done.
type Counts struct {
	Seen    int64 // entries looked at, the directory itself included
	Changed int64 // of those
	// Mounts is how many entries were left alone since something is mounted there. Who
	// may mount looks under mounts (Linux 5.12), and mostly sees none: what they hide
	// is changed like all else, what is mounted is not.
	Mounts int64
}

const (
	maxWorkers = 256
	maxID      = 1<<32 - 2 // the last one stands for none
)

func (o Options) check() error {
	for _, id := range []struct {
		field string
		value *int64
	}{{"User", o.User}, {"Group", o.Group}} {
		if id.value != nil && (*id.value < 0 || *id.value > maxID) {
			return &InputError{Field: id.field, Value: fmt.Sprint(*id.value), Reason: "no ID"}
		}
	}
	switch {
	case o.Policy != Always && o.Policy != OnRootMismatch:
		return &InputError{Field: "Policy", Value: fmt.Sprint(int(o.Policy)), Reason: "no such policy"}
	case o.Workers < 0 || o.Workers > maxWorkers:
		return &InputError{Field: "Workers", Value: fmt.Sprint(o.Workers), Reason: "out of range"}
	case o.Every < 0:
		return &InputError{Field: "Every", Value: o.Every.String(), Reason: "negative"}
	}
	return nil
}
