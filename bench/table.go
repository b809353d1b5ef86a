package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// printAll prints a table in Markdown with all figures. Three figures in one cell are ours, the
// peer's and the floor's.
func printAll(w io.Writer, lines []line) error {
	columns := []string{"subject", "work", "time", "CPU", "peer / ours", "CPU", "ours / floor", "CPU", "system calls", "allocations"}
	out := cells(columns) + "|---|---|" + strings.Repeat("--:|", len(columns)-2) + "\n"
	for _, l := range lines {
		out += cells([]string{
			l.Subject, l.name() + l.remarks(),
			l.triple(func(f Figures) string { return duration(f.Time) }),
			l.triple(func(f Figures) string { return duration(f.CPU) }),
			l.peer.time.String(), l.peer.cpu.String(), l.floor.time.String(), l.floor.cpu.String(),
			l.triple(func(f Figures) string { return count(f.Calls) }),
			l.triple(func(f Figures) string { return count(f.Allocs) }),
		})
	}
	_, err := io.WriteString(w, out)
	return err
}

// remarks returns notes on failures, a refusal, and a busy machine.
func (l line) remarks() string {
	text := ""
	if l.Busy {
		text += ", busy"
	}
	if l.Ours.Failed > 0 {
		text += fmt.Sprintf(", **%.2g %% failed**", l.Ours.Failed*100)
	}
	if l.Peer != nil && l.Peer.Refused != "" {
		text += " (peer: " + l.Peer.Refused + ")"
	}
	return text
}

func (l line) triple(of func(Figures) string) string { return strings.Join(l.each(of), "; ") }

func (l line) each(of func(Figures) string) []string {
	texts := []string{of(l.Ours), unknown, unknown}
	if l.Peer != nil && l.Peer.Refused == "" {
		texts[1] = of(*l.Peer)
	}
	if l.Floor != nil {
		texts[2] = of(*l.Floor)
	}
	return texts
}

// printShort prints the table of README.md: the lines of each subject with the worst ratios,
// with those of a busy machine beside them, if they were measured. Below are the lines without a
// peer, which compare with nothing that users run today.
func printShort(w io.Writer, lines []line) error {
	idle, busy := split(lines)
	columns := []string{"work", "ours", "peer", "floor", "peer / ours", "CPU", "ours / floor", "CPU"}
	if len(busy) > 0 {
		columns = append(columns, "busy: peer / ours", "busy: ours / floor")
	}
	columns = append(columns, "calls: ours, peer, floor")
	out := cells(columns) + "|---|" + strings.Repeat("--:|", len(columns)-1) + "\n"
	compared, alone := splitByPeer(idle)
	for _, l := range worstOfEach(compared) {
		columns := append([]string{l.name() + l.remarks()}, l.times()...)
		columns = append(columns, l.peer.time.String(), factor(l.peer.cpu.mid), l.floor.time.String(), factor(l.floor.cpu.mid))
		if len(busy) > 0 {
			b := busy[l.Subject+l.name()]
			columns = append(columns, factor(b.peer.time.mid), factor(b.floor.time.mid))
		}
		out += cells(append(columns, l.triple(func(f Figures) string { return count(f.Calls) })))
	}
	_, err := io.WriteString(w, out+withoutPeer(worstOfEach(alone)))
	return err
}

// splitByPeer returns the lines with a peer, and those without.
func splitByPeer(lines []line) (compared, alone []line) {
	for _, l := range lines {
		if l.Peer != nil {
			compared = append(compared, l)
		} else {
			alone = append(alone, l)
		}
	}
	return compared, alone
}

// withoutPeer returns a list of lines without a peer.
func withoutPeer(lines []line) string {
	if len(lines) == 0 {
		return ""
	}
	out := "\nWithout a peer, so these compare with nothing:\n\n"
	for _, l := range lines {
		times := l.times()
		out += "- " + l.name() + l.remarks() + ": " + times[0]
		if times[2] != unknown {
			out += " (floor: " + times[2] + ")"
		}
		out += "\n"
	}
	return out
}

// cells returns the cells of a table's row.
func cells(texts []string) string { return "| " + strings.Join(texts, " | ") + " |\n" }

// times returns this library's, the peer's and the floor's times, or the only figure, marked
// as processor time.
func (l line) times() []string {
	if l.Ours.Time == 0 {
		return []string{duration(l.Ours.CPU) + " of CPU", unknown, unknown}
	}
	return l.each(func(f Figures) string { return duration(f.Time) })
}

// split returns the lines of an idle machine, and those of a busy one by subject and name. If
// all lines are of a busy machine it returns them as the former.
func split(lines []line) (idle []line, busy map[string]line) {
	busy = map[string]line{}
	for _, l := range lines {
		if l.Busy {
			busy[l.Subject+l.name()] = l
		} else {
			idle = append(idle, l)
		}
	}
	if len(idle) == 0 {
		return lines, nil
	}
	return idle, busy
}

// worstOfEach returns for each subject the line with the smallest ratio of the peer to ours, the
// line with the largest ratio of ours to the floor, and the lines without ratios, in order.
func worstOfEach(lines []line) []line {
	slowest, farthest := map[string]int{}, map[string]int{}
	for i, l := range lines {
		s := l.Subject
		if j, ok := slowest[s]; l.peer.time.mid > 0 && (!ok || l.peer.time.mid < lines[j].peer.time.mid) {
			slowest[s] = i
		}
		if j, ok := farthest[s]; !ok || l.floor.time.mid > lines[j].floor.time.mid {
			farthest[s] = i
		}
	}
	var worst []line
	for i, l := range lines {
		j, has := slowest[l.Subject]
		alone := l.Peer == nil && l.Floor == nil
		if alone || has && i == j || i == farthest[l.Subject] {
			worst = append(worst, l)
		}
	}
	return worst
}

// String returns a ratio, with the smallest and the largest of several runs.
func (s span) String() string {
	text := factor(s.mid)
	if s.mid != 0 && factor(s.min) != factor(s.max) {
		text += fmt.Sprintf(" (%s to %s)", strings.TrimSuffix(factor(s.min), "×"), strings.TrimSuffix(factor(s.max), "×"))
	}
	return text
}

// factor formats a ratio; it returns "" for 0, which stands for no ratio.
func factor(f float64) string {
	switch {
	case f == 0:
		return ""
	case f < 0.995:
		return fmt.Sprintf("%.2f×", f)
	case f < 9.95:
		return fmt.Sprintf("%.1f×", f)
	}
	return thousands(int(math.Round(f))) + "×"
}

const unknown = "–" // shown without a figure

// duration formats microseconds with three digits in a fitting unit.
func duration(us float64) string {
	if us == 0 {
		return unknown
	}
	for _, unit := range []struct {
		name string
		in   float64 // µs
	}{{"s", 1e6}, {"ms", 1e3}} {
		if us >= unit.in*0.9995 {
			return digits(us/unit.in) + " " + unit.name
		}
	}
	return digits(us) + " µs"
}

func digits(f float64) string {
	switch {
	case f >= 99.95:
		return fmt.Sprintf("%.0f", f)
	case f >= 9.995:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// decimal formats an average, with tenths if it is small.
func decimal(f float64) string {
	if f >= 10 || f == math.Trunc(f) {
		return thousands(int(math.Round(f)))
	}
	return fmt.Sprintf("%.1f", f)
}

func count(n float64) string {
	if n == 0 {
		return unknown
	}
	return decimal(n)
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
