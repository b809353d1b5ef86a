package mountcheck

import (
	"context"
	"slices"
	"time"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/manager/internal/retry"
	"github.com/volumekit/volumekit/mount"
)

// A Check is the result of checking expected mounts and the mounts of failed operations.
type Check struct {
	Gone, Replaced     []actual.ExpectedMount
	Checked, Unchecked []actual.ExpectedMount // Unchecked: mounts whose check failed
	Changed            []retry.FailedOperation
	Took               time.Duration
}

// Run checks each expected mount and the mount point of each failed operation.
func Run(ctx context.Context, mounter mount.Interface, all []actual.ExpectedMount, failed []retry.FailedOperation) (s Check) {
	s.Checked = all
	next, stop := pathDeadlines(ctx)
	defer stop()
	for _, mnt := range all {
		now, err := mountstate.At(next(), mounter, mnt.Path)
		s.add(mnt, now, err)
	}
	table := tableFor(next(), mounter, failed)
	for _, a := range failed {
		now, err := mountstate.At(next(), mounter, a.Where.Path)
		if now.Below = a.Where.Below; table != nil && a.Where.Below != 0 {
			now.Below = mountstate.Below(table, a.Where.Path)
		}
		if err == nil && now != a.Where {
			s.Changed = append(s.Changed, a)
		}
	}
	return s
}

// tableFor returns the mount table if a failed operation depends on mounts below its path;
// nil: none does, or the table is unreadable.
func tableFor(ctx context.Context, mounter mount.Interface, failed []retry.FailedOperation) []mount.Info {
	if !slices.ContainsFunc(failed, func(a retry.FailedOperation) bool { return a.Where.Below != 0 }) {
		return nil
	}
	table, err := mounter.List(ctx)
	if err != nil {
		return nil
	}
	return table
}

// add adds the result for one mount.
func (s *Check) add(mnt actual.ExpectedMount, now mountstate.State, err error) {
	switch {
	case err != nil:
		s.Unchecked = append(s.Unchecked, mnt)
	case !now.Mounted:
		s.Gone = append(s.Gone, mnt)
	case now.Mount != mnt.ID && mnt.ID != 0 && now.Mount != 0:
		s.Replaced = append(s.Replaced, mnt)
	}
}
