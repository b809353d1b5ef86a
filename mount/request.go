package mount

import "fmt"

// checkTree looks at what says how the mount lies in the tree of mounts.
func (r Request) checkTree() error {
	switch {
	case r.Submounts < RefuseSubmounts || r.Submounts > IncludeSubmounts:
		return inputError("Submounts", fmt.Sprint(int(r.Submounts)), "no such way to treat them")
	case r.Submounts != RefuseSubmounts && r.FSType != "":
		return inputError("Submounts", fmt.Sprint(int(r.Submounts)), "only the source of a bind mount has any")
	case r.Propagation < PropagationPrivate || r.Propagation > PropagationShared:
		return inputError("Propagation", fmt.Sprint(int(r.Propagation)), "no such propagation")
	case r.Helper < HelperIfFound || r.Helper > HelperAlways:
		return inputError("Helper", fmt.Sprint(int(r.Helper)), "no such use of a program")
	case r.Helper != HelperIfFound && r.FSType == "":
		return inputError("Helper", fmt.Sprint(int(r.Helper)), "a bind mount takes no program")
	}
	return r.IDMap.check()
}

// parseRemount accepts a target and options that are flags of the mount.
func (r Request) parseRemount(allow Allow) (Options, error) {
	const reason = "a remount has a target and options only"
	switch {
	case r.Source != "":
		return Options{}, inputError("Source", r.Source, reason)
	case r.SourceFile != nil:
		return Options{}, inputError("SourceFile", r.SourceFile.Name(), reason)
	case r.FSType != "":
		return Options{}, inputError("FSType", r.FSType, reason)
	case len(r.Secrets) > 0:
		return Options{}, inputError("Secrets[0]", redacted, reason)
	case r.Stack:
		return Options{}, inputError("Stack", "true", reason)
	case r.Submounts != RefuseSubmounts:
		return Options{}, inputError("Submounts", fmt.Sprint(int(r.Submounts)), reason)
	case r.Propagation != PropagationPrivate:
		return Options{}, inputError("Propagation", fmt.Sprint(int(r.Propagation)), reason)
	case r.Helper != HelperIfFound:
		return Options{}, inputError("Helper", fmt.Sprint(int(r.Helper)), reason)
	case !r.IDMap.empty():
		return Options{}, inputError("IDMap", fmt.Sprint(r.IDMap), reason)
	}
	// As many as there are, but none that is added.
	o, err := ParseOptions(r.Options, allow)
	if err != nil {
		return Options{}, err
	}
	if err := r.refuseData(o); err != nil {
		return Options{}, err
	}
	return namedFlags(r.Options), nil
}

// namedFlags returns what the options say by name.
func namedFlags(options []string) Options {
	var o Options
	for _, option := range options {
		o.add(option)
	}
	return o
}

// mostRanges is how many ranges a user namespace takes, user_namespaces(7).
const mostRanges = 340

func (m IDMap) check() error {
	for _, kind := range []struct {
		field  string
		ranges []IDRange
	}{{"IDMap.UIDs", m.UIDs}, {"IDMap.GIDs", m.GIDs}} {
		if len(kind.ranges) > mostRanges {
			return inputError(kind.field, fmt.Sprint(len(kind.ranges)), "too many ranges")
		}
		if len(kind.ranges) == 0 && !m.empty() {
			return inputError(kind.field, "", "user and group IDs are mapped together")
		}
		for i, r := range kind.ranges {
			if err := r.check(fmt.Sprintf("%s[%d]", kind.field, i), kind.ranges[:i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// check looks at one range, and whether it overlaps an earlier one.
func (r IDRange) check(field string, earlier []IDRange) error {
	value := fmt.Sprintf("%+v", r)
	const last = 1<<32 - 1 // stands for no ID
	if r.Count == 0 {
		return inputError(field, value, "an empty range")
	}
	if uint64(r.Stored)+uint64(r.Count) > last || uint64(r.Shown)+uint64(r.Count) > last {
		return inputError(field, value, "it goes beyond the last ID")
	}
	for _, e := range earlier {
		if overlap(r.Stored, e.Stored, r.Count, e.Count) || overlap(r.Shown, e.Shown, r.Count, e.Count) {
			return inputError(field, value, fmt.Sprintf("it overlaps %+v", e))
		}
	}
	return nil
}

func overlap(a, b, countA, countB uint32) bool {
	return uint64(a) < uint64(b)+uint64(countB) && uint64(b) < uint64(a)+uint64(countA)
}
