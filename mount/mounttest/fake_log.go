package mounttest

import (
	"slices"

	"github.com/volumekit/volumekit/mount"
)

// An Action is a call that a [Fake] has answered.
type Action struct {
	Op      string      // OpMount, OpUnmount, ...
	Source  string      // of a mount, or that a call was about
	Target  string      // the path that the call was about
	FSType  string      // of a mount; empty for a bind mount
	Flags   mount.Flags // of a mount: the ones asked for or added, such as mount.ReadOnly
	Options []string    // of a mount, as they were given; secrets are left out
	// Of a mount, what mount.Request says of them.
	Submounts   mount.Submounts
	Propagation mount.Propagation
	IDMap       mount.IDMap
	Remount     bool

	Err error // what the call returned
}

// Log returns the calls that have been answered since the Fake was made or
// [Fake.ResetLog] was called, in the order of their answers.
func (f *Fake) Log() []Action {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// ResetLog empties the log.
func (f *Fake) ResetLog() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = nil
}

func (f *Fake) record(action Action) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log = append(f.log, action)
}

func mountAction(req mount.Request, options mount.Options) Action {
	return Action{
		Op:      OpMount,
		Source:  req.Source,
		Target:  req.Target,
		FSType:  req.FSType,
		Flags:   options.Set,
		Options: slices.Clone(req.Options),

		Submounts:   req.Submounts,
		Propagation: req.Propagation,
		IDMap:       mount.IDMap{UIDs: slices.Clone(req.IDMap.UIDs), GIDs: slices.Clone(req.IDMap.GIDs)},
		Remount:     req.Remount,
	}
}
