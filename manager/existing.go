package manager

import (
	"slices"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/desired"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/manager/internal/populate"
	"github.com/volumekit/volumekit/util/podvolume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// existingVolumes returns the volumes that are, or may be, up in the pod.
func (s *snapshot) existingVolumes(pod types.UID) (all []populate.Existing) {
	for _, e := range s.have.Dirs.Of(pod) {
		have := s.have.Volumes.Get(e.Volume)
		all = append(all, populate.Existing{Dir: e.Name, Plugin: have.Plugin, Name: have.Name, Spec: have.Spec})
	}
	return all
}

// isResultStale reports whether a volume has come up during a population that moves the claim
// of a changed pod to another volume: the next population keeps the existing volume. The caller
// holds mu.
func (w *world) isResultStale(want desired.Population, changed []types.UID) bool {
	for _, uid := range changed {
		for _, to := range want.Demands.Get(uid).VolumesOrNone() {
			from, ok := w.want.PlaceNamed(naming.PodVolume{Pod: uid, Name: to.Pod.OuterName})
			if ok && from != to.Place && w.replacesExisting(want.Pod(uid), to.Pod.OuterName, from, to.Volume) {
				return true
			}
		}
	}
	return false
}

// replacesExisting reports whether the desired volume of a claim differs from the volume that
// is, or may be, up for the claim. The caller holds mu.
func (w *world) replacesExisting(pod *v1.Pod, outer string, from naming.Place, want *desired.Volume) bool {
	have := w.have.Volumes.Get(from.Volume)
	if have == nil || have.StateOf(from.Key) == actual.Absent || have.Storage() == (naming.Storage{Plugin: want.Plugin, Name: want.Name}) && podvolume.ViewedName(from.Key.Name) == want.Spec.Name() {
		return false
	}
	i := slices.IndexFunc(pod.Spec.Volumes, func(v v1.Volume) bool { return v.Name == outer })
	claim, _ := podspec.ClaimOf(pod, &pod.Spec.Volumes[i])
	return claim != "" && podspec.HasSameClaim(pod, &pod.Spec.Volumes[i], w.want.Pod(pod.UID))
}

// newNode returns this node, with the name and labels that node selectors match.
func newNode(c Config) *v1.Node {
	name, labels := string(c.Plugins.Host().NodeName()), c.NodeLabels
	if labels == nil {
		labels = map[string]string{v1.LabelHostname: name}
	}
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}
