package node

import (
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// podOfNode returns a pod of the cache as the source returns it, or nil for a pod of another node. A
// kubelet creates a mirror pod for each static pod, with the UID of the static pod in an annotation:
// podOfNode returns a copy with this UID, which the directory and the containers of the pod have. The
// error is of an annotation that is invalid as the name of a directory.
func (s *Source) podOfNode(pod *v1.Pod) (*v1.Pod, error) {
	if pod == nil || pod.Spec.NodeName != string(s.config.Node) {
		return nil, nil
	}
	if !isMirror(pod) {
		return pod, nil
	}
	static := *pod
	static.UID = types.UID(pod.Annotations[v1.MirrorPodAnnotationKey])
	at := field.NewPath("metadata", "annotations").Key(v1.MirrorPodAnnotationKey)
	if err := volume.ValidatePathComponent(at, string(static.UID)); err != nil {
		return nil, err
	}
	return &static, nil
}

func isMirror(pod *v1.Pod) bool {
	_, ok := pod.Annotations[v1.MirrorPodAnnotationKey]
	return ok
}

// ownsUID reports whether a change of a pod applies to the state of its UID. Users write the
// annotation of a mirror pod, so it can be the UID of any pod. A mirror pod never replaces an
// ordinary pod, and of two mirror pods the older one has the UID, after its deletion until its
// containers have ended.
func (s *Source) ownsUID(pod *v1.Pod) bool {
	state := s.podState(pod.UID)
	if state == nil || !isMirror(pod) {
		return true
	}
	last := state.last
	if last.Namespace == pod.Namespace && last.Name == pod.Name {
		return true
	}
	return isMirror(last) && pod.CreationTimestamp.Before(&last.CreationTimestamp)
}
