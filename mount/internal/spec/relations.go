package spec

import (
	"strconv"

	"github.com/volumekit/volumekit/mount/internal/failure"
)

// Submounts are the choices for the mounts below the source of a bind mount.
type Submounts int

// The values of Submounts.
const (
	RefuseSubmounts  Submounts = iota // fail if there are any
	HideSubmounts                     // mount the source's own mount alone
	IncludeSubmounts                  // mount them, too
)

// Propagation is the propagation of a new mount.
type Propagation int

// The values of Propagation.
const (
	PropagationPrivate Propagation = iota
	PropagationSlave
	PropagationShared
)

// HelperUse says whether a helper mounts a file system.
type HelperUse int

// The values of HelperUse.
const (
	HelperIfFound HelperUse = iota
	HelperNever
	HelperAlways
)

// checkRelations checks the fields about other mounts and about helpers.
func (s *Spec) checkRelations() error {
	switch {
	case s.Submounts < RefuseSubmounts || s.Submounts > IncludeSubmounts:
		return refuseNumber("Submounts", s.Submounts, "must be RefuseSubmounts, HideSubmounts or IncludeSubmounts")
	case s.Submounts != RefuseSubmounts && !s.IsBind():
		return refuseNumber("Submounts", s.Submounts, "applies to bind mounts only")
	case s.Propagation < PropagationPrivate || s.Propagation > PropagationShared:
		return refuseNumber("Propagation", s.Propagation, "must be PropagationPrivate, PropagationSlave or PropagationShared")
	case s.Helper < HelperIfFound || s.Helper > HelperAlways:
		return refuseNumber("Helper", s.Helper, "must be HelperIfFound, HelperNever or HelperAlways")
	case s.DeviceFile && !s.IsBind():
		return failure.NewInputError("DeviceFile", "true", "applies to bind mounts only")
	case s.Helper != HelperIfFound && s.IsBind():
		return refuseNumber("Helper", s.Helper, "applies to file systems only, not to bind mounts")
	}
	return s.IDMap.check()
}

// refuseNumber returns an InputError for a number: a value of an enumeration, or a count.
func refuseNumber[N ~int](field string, value N, reason string) error {
	return failure.NewInputError(field, strconv.Itoa(int(value)), reason)
}
