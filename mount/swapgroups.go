package mount

// SwapGroups returns an ID map that shows the stored group as the group shown, and the other
// way round. All other IDs are shown as they are stored.
//
// For a volume whose files all have one group, with modes that admit the group, the map
// replaces a walk that changes the group of each file: at once, and for users of this mount
// only. Files that the shown group creates through the mount are stored with the stored
// group.
func SwapGroups(stored, shown uint32) IDMap {
	const last = 1<<32 - 1 // stands for no ID
	all := []IDRange{{Count: last}}
	if stored == shown {
		return IDMap{UIDs: all, GIDs: all}
	}
	a, b := min(stored, shown), max(stored, shown)
	var groups []IDRange
	for _, r := range []IDRange{
		{0, 0, a},
		{a, b, 1},
		{a + 1, a + 1, b - a - 1},
		{b, a, 1},
		{b + 1, b + 1, last - b - 1},
	} {
		if r.Count > 0 {
			groups = append(groups, r)
		}
	}
	return IDMap{UIDs: all, GIDs: groups}
}
