package node

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// A repeatPace spaces writes of a list that the status does not keep: another program replaces the
// list, or a webhook of the API server removes it. The first repetition follows at once, and each
// further one after a pause that doubles. The zero value has recorded no write.
type repeatPace struct {
	names   []v1.UniqueVolumeName // of the last write
	written time.Time             // the time of the last write
	next    time.Time             // the earliest time of the next write of names
	repeats int                   // writes of names in a row, after the first
}

// Pauses between writes of one list. A list that the status has kept for keptTime is written at once
// again; keptTime is longer than each pause.
const (
	mostRepeatPause = 5 * time.Minute
	keptTime        = 2 * mostRepeatPause
)

// record records a successful write.
func (p *repeatPace) record(names []v1.UniqueVolumeName, now time.Time) {
	p.repeats++
	if !slices.Equal(names, p.names) || now.Sub(p.written) >= keptTime {
		p.repeats = 0
	}
	p.names, p.written, p.next = names, now, now
	if p.repeats > 0 {
		p.next = now.Add(randomized(growingPause(p.repeats, mostRepeatPause)))
	}
}

// permits reports whether names may be written.
func (p *repeatPace) permits(names []v1.UniqueVolumeName, now time.Time) bool {
	return !now.Before(p.next) || !slices.Equal(names, p.names)
}
