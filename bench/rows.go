package main

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Figures are medians of one operation of one side. Times are in microseconds.
type Figures struct {
	Time   float64 // by the clock
	CPU    float64 // of this process and of the programs that it ran
	Calls  float64 `json:",omitempty"` // system calls, without those of the Go runtime for itself; 0: not counted
	Allocs float64 // objects on the heap of this process
	// Failed is the share of failed operations, Refused the reason why the side cannot do
	// the work at all.
	Failed  float64 `json:",omitempty"`
	Refused string  `json:",omitempty"`
}

// A Row is one piece of work of one run. Peer and Floor are nil if the trial has none.
type Row struct {
	Subject, Work string
	Size          int `json:",omitempty"` // of the crowd, the set or the tree; it replaces N in Work
	Busy          bool
	Ours          Figures
	Peer, Floor   *Figures `json:",omitempty"`
}

// A span is a median with the smallest and the largest of several runs.
type span struct{ mid, min, max float64 }

// A line of a table sums up the rows of several runs.
type line struct {
	Row         // figures are the medians of the runs
	peer, floor ratios
}

// Ratios compare time and processor time: the peer's to ours, or ours to the floor's.
type ratios struct{ time, cpu span }

// summarize merges the rows of several runs of the same work, the worst first.
func summarize(rows []Row) []line {
	type key struct {
		subject, work string
		size          int
		busy          bool
	}
	groups := map[key][]Row{}
	for _, r := range rows {
		k := key{r.Subject, r.Work, r.Size, r.Busy}
		groups[k] = append(groups[k], r)
	}
	lines := make([]line, 0, len(groups))
	for _, runs := range groups {
		lines = append(lines, merge(runs))
	}
	slices.SortFunc(lines, worstFirst)
	return lines
}

func merge(runs []Row) line {
	l := line{Row: runs[0]}
	l.Ours = mergeFigures(runs, func(r Row) *Figures { return &r.Ours })
	if runs[0].Peer != nil {
		f := mergeFigures(runs, func(r Row) *Figures { return r.Peer })
		l.Peer = &f
		if f.Refused == "" {
			l.peer = compare(runs, func(r Row) (a, b Figures) { return *r.Peer, r.Ours })
		}
	}
	if runs[0].Floor != nil {
		f := mergeFigures(runs, func(r Row) *Figures { return r.Floor })
		l.Floor = &f
		l.floor = compare(runs, func(r Row) (a, b Figures) { return r.Ours, *r.Floor })
	}
	return l
}

func mergeFigures(runs []Row, of func(Row) *Figures) Figures {
	middle := func(value func(*Figures) float64) float64 {
		return spanOf(runs, func(r Row) float64 { return value(of(r)) }).mid
	}
	return Figures{
		Time:    middle(func(f *Figures) float64 { return f.Time }),
		CPU:     middle(func(f *Figures) float64 { return f.CPU }),
		Calls:   middle(func(f *Figures) float64 { return f.Calls }),
		Allocs:  middle(func(f *Figures) float64 { return f.Allocs }),
		Failed:  spanOf(runs, func(r Row) float64 { return of(r).Failed }).max,
		Refused: of(runs[0]).Refused,
	}
}

func compare(runs []Row, of func(Row) (a, b Figures)) ratios {
	return ratios{
		time: spanOf(runs, func(r Row) float64 { a, b := of(r); return ratio(a.Time, b.Time) }),
		cpu:  spanOf(runs, func(r Row) float64 { a, b := of(r); return ratio(a.CPU, b.CPU) }),
	}
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func spanOf(runs []Row, value func(Row) float64) span {
	values := make([]float64, len(runs))
	for i, r := range runs {
		values[i] = value(r)
	}
	return span{median(values), slices.Min(values), slices.Max(values)}
}

// worstFirst sorts the lines in which the peer needs less time, or processor time, to the
// top, the worst first, and the others by their distance from the floor.
func worstFirst(a, b line) int {
	return cmp.Or(
		cmp.Compare(a.lead(), b.lead()),
		cmp.Compare(b.distance(), a.distance()),
		cmp.Compare(a.Subject, b.Subject),
		cmp.Compare(a.Work, b.Work),
		cmp.Compare(a.Size, b.Size),
	)
}

// lead returns the smaller of the ratios of the peer to ours, at most 1.
func (l line) lead() float64 {
	lead := 1.0
	for _, s := range []span{l.peer.time, l.peer.cpu} {
		if s.mid != 0 {
			lead = min(lead, s.mid)
		}
	}
	return lead
}

// distance returns the larger of the ratios of ours to the floor.
func (l line) distance() float64 { return max(l.floor.time.mid, l.floor.cpu.mid) }

// name returns the work, with the size.
func (l line) name() string {
	return strings.Replace(l.Work, "N", thousands(l.Size), 1)
}

func median(values []float64) float64 { return percentile(values, 50) }

// percentile returns the smallest value that p percent of the values do not exceed.
func percentile(values []float64, p float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
