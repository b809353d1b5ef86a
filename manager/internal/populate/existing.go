package populate

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// An Existing is a volume that is, or may be, up in a pod.
type Existing struct {
	Dir          string       // the name of its directory
	Plugin, Name string       // the name as returned by GetVolumeName
	Spec         *volume.Spec // nil: not known; reconstructed, or complete with its claim
}

// isComplete reports whether the volume can be set up by its specification. A reconstructed
// specification may lack parts that are not on disk.
func (s Existing) isComplete() bool {
	return s.Spec != nil && s.Spec.PersistentVolume != nil && s.Spec.PersistentVolume.Spec.ClaimRef != nil
}

// belongsToClaim reports whether the volume is bound to the claim.
func (s Existing) belongsToClaim(namespace, claim string) bool {
	ref := s.Spec.PersistentVolume.Spec.ClaimRef
	return ref.Namespace == namespace && ref.Name == claim
}

// existingForClaim returns the existing volume of the pod's claim, if it differs from the
// claim's current volume; ok reports whether it does. Volumes are compared by directory name,
// plugin and GetVolumeName; the planner compares UIDs.
func (p *Populator) existingForClaim(pod *v1.Pod, v *v1.Volume, spec *volume.Spec) (old Existing, ok bool) {
	claim, _ := podspec.ClaimOf(pod, v)
	if claim == "" || p.ExistingIn == nil {
		return old, false
	}
	for _, s := range p.ExistingIn(pod.UID) {
		if s.isComplete() {
			if s.belongsToClaim(pod.Namespace, claim) {
				return s, p.differsFrom(s, spec)
			}
			continue
		}
		if s.Spec != nil && s.Spec.Name() == spec.Name() && !p.isInline(pod, s) && p.differsFrom(s, spec) {
			old, ok = s, true
		}
	}
	return old, ok
}

// differsFrom reports whether the existing volume differs from the specification. A
// specification without a plugin is not compared: it cannot be set up.
func (p *Populator) differsFrom(s Existing, spec *volume.Spec) bool {
	if s.Spec.PersistentVolume == spec.PersistentVolume {
		return false
	}
	if s.Spec.Name() != spec.Name() {
		return true
	}
	plugin, err := p.Plugins.FindPluginBySpec(spec)
	if err != nil {
		return false
	}
	name, err := plugin.GetVolumeName(spec)
	return err == nil && (s.Plugin != plugin.GetPluginName() || s.Name != name)
}

// isInline reports whether the directory belongs to a volume written in the pod itself, whose
// name may equal the name of a persistent volume.
func (p *Populator) isInline(pod *v1.Pod, s Existing) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v v1.Volume) bool {
		if name, _ := podspec.ClaimOf(pod, &v); name != "" || v.Name != s.Spec.Name() {
			return false
		}
		plugin, err := p.Plugins.FindPluginBySpec(volume.NewSpecFromVolume(&v))
		return err == nil && plugin.GetPluginName() == s.Plugin
	})
}

// specFor returns the specification of the existing volume, read-only if the pod's volume is.
func (s Existing) specFor(pod *v1.Pod, v *v1.Volume) *volume.Spec {
	_, readOnly := podspec.ClaimOf(pod, v)
	return volume.NewSpecFromPersistentVolume(s.Spec.PersistentVolume, readOnly)
}

// mismatchError returns the error of a claim whose volume, spec, differs from the existing one.
func (s Existing) mismatchError(spec *volume.Spec) error {
	if s.Spec.Name() == spec.Name() {
		return fmt.Errorf("%w: %q stays unchanged until the pod is gone", errRemade, brief.Name(spec.Name()))
	}
	return fmt.Errorf("%w: %q; %q stays until the pod is gone", errRebound, brief.Name(spec.Name()), brief.Name(s.Spec.Name()))
}
