package spec

import (
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
)

// checkRemount accepts a target and options that are flags, and fills in Options. Nothing is
// added to the options.
func (s *Spec) checkRemount(allow options.Allow) (err error) {
	const reason = "a remount has a target and options only"
	switch {
	case s.Source != "":
		return failure.NewInputError("Source", s.Source, reason)
	case s.SourceFile != nil:
		return failure.NewInputError("SourceFile", s.SourceFile.Name(), reason)
	case s.FSType != "":
		return failure.NewInputError("FSType", s.FSType, reason)
	case len(s.Secrets) > 0:
		return failure.NewInputError("Secrets[0]", options.Redacted, reason)
	case s.DeviceFile:
		return failure.NewInputError("DeviceFile", "true", reason)
	case s.Stack:
		return failure.NewInputError("Stack", "true", reason)
	case s.Submounts != RefuseSubmounts:
		return refuseNumber("Submounts", s.Submounts, reason)
	case s.Propagation != PropagationPrivate:
		return refuseNumber("Propagation", s.Propagation, reason)
	case s.Helper != HelperIfFound:
		return refuseNumber("Helper", s.Helper, reason)
	case !s.IDMap.IsEmpty():
		return failure.NewInputError("IDMap", fmt.Sprint(s.IDMap), reason)
	}
	if s.Options, err = options.Parse(s.List, allow); err != nil {
		return err
	}
	if err := s.refuseData(); err != nil {
		return err
	}
	s.Options = options.ParseNamed(s.List)
	return nil
}
