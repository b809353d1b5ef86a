package actual

import (
	"github.com/volumekit/volumekit/volume"
)

// A Pod is the actual state of a volume in one pod.
type Pod struct {
	State     State
	Block     bool
	Revision  int64  // revision that was set up
	OuterName string // the volume's name in the pod; empty: not known, as after a restart
	Path      string
	Mounted   bool   // the volume was a mount point after set-up
	Mount     uint64 // mount ID after set-up; 0: not known, as after a restart
	// Attributes are the plugin's attributes at set-up.
	Attributes volume.Attributes
}

// WithState returns a copy in another state.
func (p *Pod) WithState(s State) *Pod {
	other := *p
	other.State = s
	return &other
}
