package mounttest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// An Action is a call that a [Fake] has answered.
type Action struct {
	Op      string      // OpMount, OpUnmount, ...
	Source  string      // of a mount, or the argument of MountsFrom
	Target  string      // the path of the call
	FSType  string      // of a mount; empty for a bind mount
	Flags   mount.Flags // of a mount: those requested or added, such as mount.ReadOnly
	Options []string    // of a mount, as given; without secrets
	// Fields of mount.Request, of a mount:
	Submounts   mount.Submounts
	Propagation mount.Propagation
	IDMap       mount.IDMap
	Remount     bool

	Err error // the result of the call
}

// String returns the call in one line, such as
//
//	mount /data on /target: ro,nosuid,nodev: input/output error
//
// It omits zero fields, and lists options as they were given.
func (a Action) String() string {
	var b strings.Builder
	b.WriteString(a.Op)
	for _, part := range a.parts() {
		b.WriteString(part)
	}
	return b.String()
}

// parts returns the non-zero fields, each with its separator.
func (a Action) parts() (parts []string) {
	add := func(separator, value string) {
		if value != "" {
			parts = append(parts, separator+value)
		}
	}
	add(" ", a.Source)
	if a.Source != "" && a.Target != "" {
		add(" ", "on")
	}
	add(" ", a.Target)
	add(": ", strings.Join(a.details(), ", "))
	if a.Err != nil {
		add(": ", a.Err.Error())
	}
	return parts
}

// details returns the fields of a request besides its paths.
func (a Action) details() (details []string) {
	add := func(is bool, format string, args ...any) {
		if is {
			details = append(details, fmt.Sprintf(format, args...))
		}
	}
	add(a.Remount, "remount")
	add(a.FSType != "", "type %s", a.FSType)
	add(a.Flags != 0, "%s", a.Flags)
	add(len(a.Options) > 0, "options %q", a.Options)
	add(a.Submounts == mount.HideSubmounts, "submounts hidden")
	add(a.Submounts == mount.IncludeSubmounts, "submounts included")
	add(a.Propagation == mount.PropagationSlave, "slave")
	add(a.Propagation == mount.PropagationShared, "shared")
	add(len(a.IDMap.UIDs)+len(a.IDMap.GIDs) > 0, "ID-mapped")
	return details
}

// Log returns the answered calls since the Fake was made or [Fake.ResetLog] was called, in
// the order of their answers.
func (f *Fake) Log() []Action {
	f.lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

// ResetLog empties the log.
func (f *Fake) ResetLog() {
	f.lock()
	defer f.mu.Unlock()
	f.log = nil
}

func (f *Fake) record(action Action) {
	f.lock()
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
