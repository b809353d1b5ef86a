package planning

import (
	"path/filepath"
	"slices"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Leftover is an unrecognized path that may be a volume, like manager.Leftover.
type Leftover struct {
	Path   string
	Pod    types.UID           // empty: not known
	Volume v1.UniqueVolumeName // empty: not known
	Scope  volume.LeftoverScope
}

// An identity holds the fields of a volume that leftovers are compared with. An unknown field
// matches anything.
type identity struct {
	unique     v1.UniqueVolumeName
	scope      volume.LeftoverScope
	names      []string // names of its directories; views have the name of their volume
	isNameless bool     // may have other names
}

// mayBe reports whether the leftover may be the volume.
func (left Leftover) mayBe(id identity) bool {
	switch {
	case left.Volume != "":
		return left.Volume == id.unique
	case left.Scope != volume.LeftoverScope{}:
		return left.Scope.MayBe(id.scope)
	}
	return id.isNameless || slices.Contains(id.names, podvolume.ViewedName(filepath.Base(left.Path)))
}

// identity returns the identity of the actual and the desired volume.
func (p *Planner) identity() identity {
	id := identity{unique: p.name, isNameless: p.Have.Spec == nil && p.Have.LastPod.Name == ""}
	id.scope = volume.LeftoverScope{VolumeName: p.Have.Name, DevicePath: p.Have.DevicePath, Driver: p.Have.Spec.Driver()}
	for _, spec := range []*volume.Spec{p.Have.Spec, p.Want.Spec} {
		if spec != nil {
			id.names = append(id.names, spec.Name())
		}
	}
	id.names = append(id.names, podvolume.ViewedName(p.Have.LastPod.Name))
	for key := range p.Have.Pods.All() {
		id.names = append(id.names, podvolume.ViewedName(key.Name))
	}
	for key := range p.Want.Pods.All() {
		id.names = append(id.names, podvolume.ViewedName(key.Name))
	}
	return id
}

// mayBeUnrecognized reports whether a leftover may be the volume.
func (p *Planner) mayBeUnrecognized() bool {
	left := p.Unrecognized[p.Have.Plugin]
	return len(left) > 0 && slices.ContainsFunc(left, func(l Leftover) bool { return l.mayBe(p.identity()) })
}

// mayBeInOtherPod reports whether a leftover in another pod may be the volume.
func (p *Planner) mayBeInOtherPod(key naming.PodKey) bool {
	id := identity{unique: p.name, names: []string{podvolume.ViewedName(key.Name)}}
	id.scope = volume.LeftoverScope{VolumeName: p.Want.Name, Driver: p.Want.Spec.Driver(), DevicePath: p.Have.DevicePath}
	return slices.ContainsFunc(p.Unrecognized[p.Want.Plugin], func(l Leftover) bool { return l.Pod != key.Pod && l.mayBe(id) })
}
