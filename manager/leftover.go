package manager

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/poddirs"

	"github.com/volumekit/volumekit/manager/internal/planning"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Leftover is an unrecognized path below the host's root that may be a volume or the record
// of one. The manager leaves it in place, and neither unmounts the device of, nor detaches, a
// volume that it may be. Other volumes are not affected.
type Leftover struct {
	Path string
	Pod  types.UID // empty: not known
	// Plugin is the name of the plugin, if known.
	Plugin string
	Err    error // why it is unrecognized
	// Volume is the unique name of the volume, if known, as from a record.
	Volume v1.UniqueVolumeName
	// Scope is the plugin's scope of the volume (volume.LeftoverVolumePlugin). With the zero
	// value the leftover may be any volume with the name of its directory.
	Scope volume.LeftoverScope
}

// setLeftovers replaces and indexes the leftovers. The caller holds mu.
func (w *world) setLeftovers(leftovers []Leftover) {
	w.leftovers = leftovers
	w.schedule.Unrecognized, w.schedule.UnrecognizedDirs = map[string][]planning.Leftover{}, map[naming.PodDir]bool{}
	for _, left := range leftovers {
		if left.Plugin != "" {
			w.schedule.Unrecognized[left.Plugin] = append(w.schedule.Unrecognized[left.Plugin], planning.Leftover{Path: left.Path, Pod: left.Pod, Volume: left.Volume, Scope: left.Scope})
			w.schedule.UnrecognizedDirs[naming.PodDir{Pod: left.Pod, Plugin: left.Plugin, Name: filepath.Base(left.Path)}] = true
		}
	}
}

// strayLeftovers returns the strays of the selected pods as leftovers.
func strayLeftovers(l poddirs.Layout, isSelected func(types.UID) bool) (leftovers []Leftover) {
	for _, s := range l.Strays {
		if isSelected(s.Pod) {
			leftovers = append(leftovers, Leftover{Path: s.Path, Pod: s.Pod, Err: s.Err})
		}
	}
	return leftovers
}

// dropSubpathLeftovers drops the leftover subpaths of a pod whose volume was torn down. The
// caller holds mu.
func (w *world) dropSubpathLeftovers(pod types.UID) {
	isOrphan := func(left Leftover) bool { return left.Pod == pod && errors.Is(left.Err, poddirs.ErrOrphanSubpath) }
	if slices.ContainsFunc(w.leftovers, isOrphan) {
		w.setLeftovers(slices.DeleteFunc(slices.Clone(w.leftovers), isOrphan))
	}
}

// isUnknownPod reports whether the pod is neither desired nor has existing volumes.
func (s *snapshot) isUnknownPod(pod types.UID) bool {
	return s.want.Pod(pod) == nil && s.have.Dirs.Of(pod) == nil
}
