package spec

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
)

// An IDMap maps the owners that a file system stores to the owners that a mount shows.
type IDMap struct {
	UIDs, GIDs []IDRange
}

// An IDRange maps Count consecutive IDs, from Stored in the file system to Shown in the mount.
type IDRange struct{ Stored, Shown, Count uint32 }

// IsEmpty reports whether the map maps nothing.
func (m IDMap) IsEmpty() bool { return len(m.UIDs) == 0 && len(m.GIDs) == 0 }

// maxRanges is the maximum of ranges of a user namespace, user_namespaces(7).
const maxRanges = 340

func (m IDMap) check() error {
	for _, kind := range []struct {
		field  string
		ranges []IDRange
	}{{"IDMap.UIDs", m.UIDs}, {"IDMap.GIDs", m.GIDs}} {
		if len(kind.ranges) > maxRanges {
			return refuseNumber(kind.field, len(kind.ranges), "must have at most 340 ranges")
		}
		if len(kind.ranges) == 0 && !m.IsEmpty() {
			return failure.NewInputError(kind.field, "", "must not be empty if the other kind of IDs is mapped")
		}
		for i, r := range kind.ranges {
			if err := r.check(options.FieldOf(kind.field, i), kind.ranges[:i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// check checks a range by itself, and for overlap with earlier ones.
func (r IDRange) check(field string, earlier []IDRange) error {
	value := fmt.Sprintf("%+v", r)
	const last = 1<<32 - 1 // no valid ID
	if r.Count == 0 {
		return failure.NewInputError(field, value, "Count must be at least 1")
	}
	if uint64(r.Stored)+uint64(r.Count) > last || uint64(r.Shown)+uint64(r.Count) > last {
		return failure.NewInputError(field, value, "the range must end below ID 4294967295")
	}
	for _, e := range earlier {
		if overlap(r.Stored, e.Stored, r.Count, e.Count) || overlap(r.Shown, e.Shown, r.Count, e.Count) {
			return failure.NewInputError(field, value, fmt.Sprintf("overlaps %+v", e))
		}
	}
	return nil
}

// overlap reports whether the IDs from a and those from b have one in common.
func overlap(a, b, countA, countB uint32) bool {
	return uint64(a) < uint64(b)+uint64(countB) && uint64(b) < uint64(a)+uint64(countA)
}

// sortedFrom is the number of ranges from which on the kernel sorts them.
const sortedFrom = 6

// KernelLines returns ranges in the kernel's notation and order.
func KernelLines(ranges []IDRange) []string {
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
