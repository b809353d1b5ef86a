package node

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// isStatic reports whether a pod is a mirror pod, or the static pod as a kubelet reads it from a file.
func isStatic(pod *v1.Pod) bool {
	source := pod.Annotations[configSource]
	return isMirror(pod) || source != "" && source != "api"
}

// configSource is the annotation that a kubelet adds to the pods that it reads.
const configSource = "kubernetes.io/config.source"

// Anybody who may create pods may create a mirror pod with any UID in its annotation. These are why a mirror pod
// does not have its UID.
var (
	errNotOfKubelet = errors.New("its controller is not the Node object of this node")
	errNotListed    = errors.New("the pods of the node were not listed yet")
	errNodeUnread   = errors.New("the Node object was not read yet")
	errTaken        = errors.New("the UID is that of another pod")
	errDisputed     = errors.New("several mirror pods have the UID in their annotation")
	errNoMirror     = errors.New("the mirror pod of the static pod is missing")
)

// A mirrorPod is a mirror pod, with the UID of its static pod.
type mirrorPod struct {
	*v1.Pod
	object types.UID // of the mirror pod itself
	warned error     // the last reason why it is ignored that was logged
}

// addMirror adds a mirror pod to those that have its UID in their annotation. The caller holds updating.
func (s *Source) addMirror(pod *v1.Pod, object types.UID, warned error) {
	if s.mirrors[pod.UID] == nil {
		s.mirrors[pod.UID] = map[api.Key]mirrorPod{}
	}
	s.mirrors[pod.UID][api.KeyOf(pod)] = mirrorPod{pod, object, warned}
}

// removeMirror is the inverse of addMirror. It returns the last reason that was logged.
func (s *Source) removeMirror(pod *v1.Pod) (warned error) {
	warned = s.mirrors[pod.UID][api.KeyOf(pod)].warned
	delete(s.mirrors[pod.UID], api.KeyOf(pod))
	if len(s.mirrors[pod.UID]) == 0 {
		delete(s.mirrors, pod.UID)
	}
	return warned
}

// mirrorPods is the user of the node in place of a pod as long as the node has mirror pods. It is no UID.
const mirrorPods = "mirror/pods"

// followNodeForMirrors watches the node, whose UID mirror pods have to know, while there are mirror pods.
func (s *Source) followNodeForMirrors() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mirrors) > 0 {
		use(s, &s.nodes, s.nodeKey(), mirrorPods)
		return
	}
	drop(&s.nodes, s.nodeKey(), mirrorPods)
	s.nodeUID = "" // the first state of the next watch is news
}

// An identity is the knowledge about the pod that has a UID.
type identity struct {
	name     api.Key
	object   types.UID // of the mirror pod that had the UID last; "": not known
	isStatic bool
}

// ownerOf returns the pod that is known to have a UID.
func (s *Source) ownerOf(uid types.UID) (owner identity, ok bool) {
	state := s.podState(uid)
	switch {
	case state == nil:
		owner, ok = s.known[uid]
		return owner, ok
	case state.hold == nil:
		return identity{api.KeyOf(state.last), state.object, isStatic(state.last)}, true
	case state.owner == nil:
		return identity{}, false
	}
	return *state.owner, true
}

// claimantOf returns the mirror pod that has a UID, the zero value if none has it, and an error if that is undecided.
func (s *Source) claimantOf(uid types.UID) (none mirrorPod, err error) {
	node := s.lastNode()
	if owner, ok := s.ownerOf(uid); ok {
		pod, ok := s.mirrors[uid][owner.name]
		switch {
		case !ok, !owner.isStatic:
			return none, nil
		case pod.object == owner.object:
			return pod, nil // its owner need not be the present Node object any more
		case !s.namesNode(pod, node):
			return none, nil
		case node == nil:
			return none, errNodeUnread
		}
		return pod, nil
	}
	var ofKubelet []mirrorPod
	for _, pod := range s.mirrors[uid] {
		if s.namesNode(pod, node) {
			ofKubelet = append(ofKubelet, pod)
		}
	}
	state := s.podState(uid)
	switch {
	case len(ofKubelet) == 0:
		return none, nil
	case !s.isListed:
		return none, errNotListed
	case state != nil && state.lost && s.config.HasContainers(uid):
		return none, errDisputed
	case node == nil:
		return none, errNodeUnread
	case len(ofKubelet) > 1:
		return none, errDisputed
	}
	return ofKubelet[0], nil
}

// namesNode reports whether the controller of a mirror pod is this node, as that of each mirror pod of a kubelet is
// (KEP 1314): by name, and by the UID unless node is nil. The UID is no secret of a tenant with a pod on the node: the
// token of its service account has it.
func (s *Source) namesNode(pod mirrorPod, node *v1.Node) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.APIVersion == "v1" && owner.Kind == "Node" && owner.Name == string(s.config.Node) &&
		(node == nil || owner.UID == node.UID)
}

// settle decides which mirror pod has a UID that is not an ordinary pod's, after a change of its mirror pods or of the
// knowledge about it. The caller holds updating.
func (s *Source) settle(uid types.UID) {
	state := s.podState(uid)
	pod, undecided := s.claimantOf(uid)
	switch {
	case pod.Pod != nil:
		if state == nil || state.last != pod.Pod {
			s.setPod(&podState{last: pod.Pod, object: pod.object})
		}
	case undecided != nil:
		// Once the pods are listed, a UID without a state has no volumes to keep.
		if state != nil || !s.isListed {
			s.hold(uid, undecided)
		}
	default:
		s.endMirror(state)
	}
}

// hold makes the source return a pod with one unusable volume for a UID, as its pod is undecided.
func (s *Source) hold(uid types.UID, undecided error) {
	key, state := api.Key{}, &podState{hold: undecided}
	if owner, ok := s.ownerOf(uid); ok {
		key, state.owner = owner.name, &owner
	} else {
		key = api.KeyOf(s.oldestMirror(uid))
	}
	if last := s.podState(uid); last != nil && last.hold != nil {
		state.lost = last.lost
		if !last.deleted && errors.Is(last.hold, undecided) && api.KeyOf(last.last) == key {
			return // nothing is new
		}
	}
	state.last = s.heldPod(key, uid)
	s.setPod(state)
}

// noteLost notes that a mirror pod has gone while its UID was undecided: containers that run can be its own, so that
// the pods that are left wait for their end.
func (s *Source) noteLost(pod *v1.Pod) {
	state := s.podState(pod.UID)
	if state == nil || state.hold == nil || state.owner != nil {
		return
	}
	if s.namesNode(mirrorPod{Pod: pod}, s.lastNode()) {
		state.lost = true
	}
}

// endMirror applies the end of the mirror pod that has a UID.
func (s *Source) endMirror(state *podState) {
	if state != nil && !state.deleted && isMirror(state.last) {
		ended := *state
		ended.deleted = true
		s.setPod(&ended)
	}
}

// warnIfIgnored logs why a mirror pod does not have the UID in its annotation.
func (s *Source) warnIfIgnored(pod mirrorPod) {
	state, reason := s.podState(pod.UID), errNodeUnread
	switch {
	case !s.isListed, state != nil && state.last == pod.Pod:
		return
	case state != nil && state.hold != nil:
		reason = state.hold
	case !s.namesNode(pod, s.lastNode()):
		reason = errNotOfKubelet
	case state != nil:
		reason = errTaken
	}
	if !errors.Is(reason, pod.warned) {
		pod.warned = reason
		s.mirrors[pod.UID][api.KeyOf(pod)] = pod
		s.config.Logger.Warn("mirror pod ignored", "namespace", pod.Namespace, "pod", pod.Name, "uid", pod.UID, "err", reason)
	}
}

// settleMirrors decides for all mirror pods again.
func (s *Source) settleMirrors() {
	for _, uid := range slices.Sorted(maps.Keys(s.mirrors)) {
		s.settle(uid)
		for _, pod := range s.mirrors[uid] {
			s.warnIfIgnored(pod)
		}
	}
}

// checkNode decides for all mirror pods again if the node has another UID than at the last decision.
func (s *Source) checkNode() {
	s.updating.Lock()
	defer s.updating.Unlock()
	var uid types.UID
	if node := s.lastNode(); node != nil {
		uid = node.UID
	}
	if uid != s.nodeUID {
		s.nodeUID = uid
		s.settleMirrors()
	}
}

// oldestMirror returns the oldest mirror pod with a UID in its annotation.
func (s *Source) oldestMirror(uid types.UID) *v1.Pod {
	return slices.MinFunc(slices.Collect(maps.Values(s.mirrors[uid])), func(a, b mirrorPod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(name(api.KeyOf(a)), name(api.KeyOf(b))))
	}).Pod
}

// waitForNode waits until the node was read, or could not be, if there are mirror pods.
func (s *Source) waitForNode(ctx context.Context) {
	s.updating.Lock()
	hasMirrors := len(s.mirrors) > 0
	s.updating.Unlock()
	if hasMirrors {
		_, _ = read(ctx, s, &s.nodes, s.nodeKey())
	}
}

// heldPod returns what the source returns in place of a pod that is undecided: a pod with the UID and
// with one volume that can be neither mounted nor mapped. A manager keeps the volumes of such a pod as they are.
func (s *Source) heldPod(key api.Key, uid types.UID) *v1.Pod {
	const reason = "it-is-not-known-which-pod-has-this-uid"
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: uid, Annotations: map[string]string{v1.MirrorPodAnnotationKey: string(uid)}},
		Spec: v1.PodSpec{NodeName: string(s.config.Node), Volumes: []v1.Volume{{Name: reason}}, Containers: []v1.Container{{
			Name: reason, VolumeMounts: []v1.VolumeMount{{Name: reason, MountPath: "/held"}}, VolumeDevices: []v1.VolumeDevice{{Name: reason, DevicePath: "/held"}},
		}}},
	}
}
