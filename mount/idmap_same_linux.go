package mount

import (
	"context"
	"fmt"
	"slices"
)

// sameIDMap reports whether a mount maps the IDs as asked for, as far as the kernel
// tells (Linux 6.15).
func sameIDMap(fd int, want IDMap) bool {
	if want.empty() {
		return true
	}
	unique, err := uniqueMount(fd)
	if err != nil {
		return true
	}
	l := newLook(context.Background())
	defer l.done()
	f, err := l.ask(unique, askUIDs|askGIDs)
	if err != nil || !f.has(askUIDs|askGIDs) {
		return true
	}
	return slices.Equal(f.strings(askUIDs, f.uidsAt, f.uids), lines(want.UIDs)) &&
		slices.Equal(f.strings(askGIDs, f.gidsAt, f.gids), lines(want.GIDs))
}

// sortedFrom is from how many ranges on the kernel sorts them.
const sortedFrom = 6

// lines spells ranges as the kernel does.
func lines(ranges []IDRange) []string {
	ranges = slices.Clone(ranges)
	if len(ranges) >= sortedFrom {
		slices.SortFunc(ranges, func(a, b IDRange) int { return int(int64(a.Stored) - int64(b.Stored)) })
	}
	var lines []string
	for _, r := range ranges {
		lines = append(lines, fmt.Sprintf("%d %d %d", r.Stored, r.Shown, r.Count))
	}
	return lines
}
