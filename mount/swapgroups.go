package mount

// SwapGroups returns a map by which a group that is stored is shown as another one,
// and that one as the first; all other IDs are shown as they are stored. It does for
// a volume whose files all have one group, and modes that let it in, what a walk does
// that changes the group of each: at once, and only for those who use this mount. What
// is created through the mount by the group that is shown is stored as the other's.
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
