package reading

import (
	"github.com/volumekit/volumekit/manager/internal/podspec"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Kind is a kind of object.
type Kind int

// The kinds of objects that the manager reads.
const (
	Claim Kind = iota
	Volume
	Pod
)

// A Ref names an object: a claim by namespace and name, a persistent volume by its name, a pod
// by its UID.
type Ref struct {
	Kind            Kind
	Namespace, Name string
}

// ClaimRef returns the ref of a claim.
func ClaimRef(namespace, name string) Ref { return Ref{Claim, namespace, name} }

// VolumeRef returns the ref of a persistent volume.
func VolumeRef(name string) Ref { return Ref{Volume, "", name} }

// PodRef returns the ref of a pod.
func PodRef(uid types.UID) Ref { return Ref{Pod, "", string(uid)} }

// ClaimRefsIn returns the claims that the containers of a pod use, in the order of the pod's
// volumes.
func ClaimRefsIn(pod *v1.Pod) (claims []Ref) {
	var uses map[string]podspec.Use
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		name, _ := podspec.ClaimOf(pod, v)
		if name == "" {
			continue
		}
		if uses == nil {
			uses = podspec.UsesOf(pod)
		}
		if _, used := uses[v.Name]; used {
			claims = append(claims, ClaimRef(pod.Namespace, name))
		}
	}
	return claims
}

// claimRefsOf returns the claims that the containers of running pods use, each once.
func claimRefsOf(pods []*v1.Pod) []Ref {
	claims, seen := make([]Ref, 0, len(pods)), make(map[Ref]bool, len(pods))
	for _, pod := range pods {
		if podspec.IsTerminated(pod) {
			continue
		}
		for _, claim := range ClaimRefsIn(pod) {
			if !seen[claim] {
				seen[claim] = true
				claims = append(claims, claim)
			}
		}
	}
	return claims
}

// volumeRefsOf returns the volumes to which the claims among the objects are bound, each once.
func volumeRefsOf(claims []Ref, objects Objects) []Ref {
	volumes, seen := make([]Ref, 0, len(claims)), make(map[Ref]bool, len(claims))
	for _, ref := range claims {
		claim := objects[ref].claim
		if objects[ref].err != nil || claim == nil || claim.Spec.VolumeName == "" {
			continue
		}
		if volume := VolumeRef(claim.Spec.VolumeName); !seen[volume] {
			seen[volume] = true
			volumes = append(volumes, volume)
		}
	}
	return volumes
}
