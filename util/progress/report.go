package progress

import (
	"fmt"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
)

// Names of steps. Other packages may begin steps with other names.
const (
	Format    = "format"    // of a device, by disk
	Check     = "check"     // of a file system, by disk
	Grow      = "grow"      // of a file system, by disk
	Mount     = "mount"     // of a device, by disk
	Ownership = "ownership" // of the files of a directory, by util/ownership
	Scrub     = "scrub"     // of a directory: its content is deleted or moved aside, by util/scrub
	Archive   = "archive"   // of the directory of a volume, by nfs
	Provision = "provision" // of storage, by controllers/provision
	Delete    = "delete"    // of storage, by controllers/provision
	Download  = "download"  // by programs
)

// Units of the work of a step.
const (
	Entries = "entries" // files and directories
	Bytes   = "bytes"
)

// A Report describes a step at a moment.
type Report struct {
	// Step is the name of the step, such as [Format].
	Step string
	// Object is the device, the directory or the volume of the step.
	Object string
	// Done is the finished work in Unit. Total is all of the work, or 0 if it is not known in advance.
	Done, Total int64
	// Unit is [Entries], [Bytes], or empty for a step that measures no work.
	Unit string
	// Elapsed is the time since the step began.
	Elapsed time.Duration
	// Ended reports the end of the step, with success or not.
	Ended bool

	previous time.Duration // Elapsed of the step's report before this one, or 0
}

// IsDue reports whether the report is the step's first one after the time first, or after a multiple of
// every later. It is for receivers that use fewer reports. If every is 0 or less, one report of the step is due.
func (r Report) IsDue(first, every time.Duration) bool {
	return timesDue(r.Elapsed, first, every) > timesDue(r.previous, first, every)
}

// timesDue counts the times first, first+every, first+2*every and so on that are not after elapsed.
func timesDue(elapsed, first, every time.Duration) int64 {
	switch {
	case elapsed < first || elapsed == 0:
		return 0
	case every <= 0:
		return 1
	}
	return 1 + int64((elapsed-first)/every)
}

// String returns the report as a line without a newline: "ownership /srv/data: 1200 entries, 10s". Long
// texts are shortened, and control characters become blanks.
func (r Report) String() string {
	text := fmt.Sprintf("%s %s: ", brief.Name(r.Step), brief.Text(r.Object))
	if r.Unit != "" {
		text += r.work() + ", "
	}
	if r.Ended {
		text += "ended after "
	}
	return oneline.Of(text + r.Elapsed.Round(time.Second).String())
}

// work returns the finished work with its unit. Bytes are in MB, 1,000,000 bytes.
func (r Report) work() string {
	amount := func(n int64) string { return fmt.Sprint(n) }
	unit := r.Unit
	if unit == Bytes {
		amount = func(n int64) string { return fmt.Sprintf("%.1f", float64(n)/1e6) }
		unit = "MB"
	}
	if r.Total > 0 {
		return fmt.Sprintf("%s of %s %s", amount(r.Done), amount(r.Total), brief.Name(unit))
	}
	return amount(r.Done) + " " + brief.Name(unit)
}
