package desired

import (
	"slices"

	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/reading"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// replaceDemand replaces the demand of a pod and the indexes that depend on it alone.
func (p *Population) replaceDemand(uid types.UID, before, now *Demand) {
	p.Demands = p.Demands.With(uid, now)
	if now == nil {
		p.Demands = p.Demands.Without(uid)
	}
	p.Failing = withMember(p.Failing, uid, now.HasFailed())
	p.Kept = withMember(p.Kept, uid, now.KeepsExisting())
	for _, ref := range before.RefsOrNone() {
		if !slices.Contains(now.RefsOrNone(), ref) {
			p.dropUser(ref, uid)
		}
	}
	for _, ref := range now.RefsOrNone() {
		if !slices.Contains(before.RefsOrNone(), ref) {
			p.Users = p.Users.With(ref, p.Users.Get(ref).With(uid, struct{}{}))
		}
	}
	p.Remounts += now.remounts() - before.remounts()
}

// dropUser removes a pod from the users of an object.
func (p *Population) dropUser(ref reading.Ref, uid types.UID) {
	others := p.Users.Get(ref).Without(uid)
	if p.Users = p.Users.With(ref, others); others.Len() == 0 {
		p.Users = p.Users.Without(ref)
	}
}

// withMember returns the set with the pod if it is a member, or else without the pod.
func withMember(set naming.UIDSet, uid types.UID, isMember bool) naming.UIDSet {
	switch _, was := set.Find(uid); {
	case isMember && !was:
		return set.With(uid, struct{}{})
	case was && !isMember:
		return set.Without(uid)
	}
	return set
}

// replaceVolume replaces a volume in all indexes; the join of no demand removes the volume.
func (p *Population) replaceVolume(name v1.UniqueVolumeName, before *Volume, now join) {
	if before != nil {
		p.ByDevicePath = naming.WithoutName(p.ByDevicePath, before.DeviceMountPath, name)
		if p.OnePod.Get(before.Storage()) == name {
			p.OnePod = p.OnePod.Without(before.Storage())
		}
	}
	if now.volume == nil {
		p.Volumes = p.Volumes.Without(name)
		return
	}
	p.Volumes = p.Volumes.With(name, now.volume)
	if now.volume.DeviceMountPath != "" {
		p.ByDevicePath = naming.WithName(p.ByDevicePath, now.volume.DeviceMountPath, name)
	}
	if now.onePod {
		p.OnePod = p.OnePod.With(now.volume.Storage(), name)
	}
}
