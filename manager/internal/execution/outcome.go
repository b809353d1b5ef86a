package execution

import (
	"cmp"
	"time"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountstate"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// An Outcome is the result of a job.
type Outcome struct {
	Job
	Took time.Duration
	Err  error

	// mounted says that the volume is a mount point, so that it can vanish.
	mounted bool
	Mount   uint64
	path    string           // the operation's mount point; empty: not known
	Where   mountstate.State // mount state at the operation's mount point after a failure
	// attributes are the plugin's attributes of the volume after set-up.
	attributes volume.Attributes
	// readOnly says that the device mount is read-only.
	readOnly bool
	After    *actual.Volume // actual state after the operation
	Silent   bool           // no event
	// stagePath is the result of SetUpDevice.
	stagePath string
}

// ShownName returns the volume's name for messages: the name of the directory if a
// reconstructed volume has no specification.
func (out Outcome) ShownName() string {
	return cmp.Or(out.Spec.Name(), podvolume.ViewedName(out.Operation.Pod.Name), out.Name)
}
