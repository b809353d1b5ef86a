package populate

import (
	"errors"

	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/reading"
	"github.com/volumekit/volumekit/volume"
)

// ErrNoSuchVolume is the error of a name that containers use and the pod lacks. Only a changed
// pod ends it.
var ErrNoSuchVolume = errors.New("a container uses a volume that the pod does not define")

// ErrPodEnds is the error of a new volume of a pod that is being deleted and has never run. Only
// a change of the pod ends it.
var ErrPodEnds = errors.New("no new volumes for a pod that is being deleted and has never run")

// These errors keep the existing volume of a pod in place. Only a change of the pod, the claim or
// the volume ends them.
var (
	errRebound = errors.New("the claim is bound to another volume now")
	errRemade  = errors.New("the volume was recreated or edited after its set-up")
)

// awaitsChange reports whether only a change of an object can end the error.
func awaitsChange(err error) bool {
	return errors.Is(err, ErrNoSuchVolume) || errors.Is(err, ErrPodEnds) || IsMismatch(err)
}

// IsMismatch reports whether the error says that the pod has another volume than it needs.
func IsMismatch(err error) bool { return errors.Is(err, errRebound) || errors.Is(err, errRemade) }

// newFailed returns an unresolved volume. While a read is pending the volume keeps the error of
// the last population.
func (p *Populator) newFailed(at naming.PodVolume, err error) desired.FailedVolume {
	f := desired.FailedVolume{Name: at.Name, Err: err, Pending: errors.Is(err, reading.ErrPending), KeepExisting: true}
	if before := p.Before.FailureOf(at); f.Pending && before != nil {
		f.Err = before
	}
	f.AwaitsChange, f.IsFinal = awaitsChange(f.Err), IsFinal(f.Err)
	return f
}

// ErrNotBound is wrapped by the error of a volume whose claim is unusable: not bound, bound to
// another volume, being deleted and not yet used by the pod, or with a volume for other nodes.
var ErrNotBound = errors.New("the claim cannot be used")

// IsFinal reports whether the error of an unresolved volume is permanent: no change of the
// cluster or of other pods can end it.
func IsFinal(err error) bool {
	for _, passes := range []error{ErrNotBound, reading.ErrPending, errRebound, errRemade} {
		if errors.Is(err, passes) {
			return false
		}
	}
	var fromSource *reading.Error
	return volume.KindOf(err) == volume.Final && !errors.As(err, &fromSource)
}
