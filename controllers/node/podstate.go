package node

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// A podState is the last state of a pod on the API server, and the pod that the source returns.
//
//	               deleted, without containers
//	pod added ──▶ present ─────────────────────────────────▶ forgotten
//	                │  ▲                                        ▲
//	                │  │ has containers                         │ deleted
//	  finished,     ▼  │                                        │
//	  without     absent ───────────────────────────────────────┘
//	  containers
//
// A pod that is finished or deleted and has containers is present. So is a held one.
type podState struct {
	last    *v1.Pod // the last state on the API server, or a heldPod
	deleted bool
	object  types.UID // of the mirror pod whose state last is
	hold    error     // why last is a heldPod; nil: it is none
	owner   *identity // of a heldPod; nil: not known
	lost    bool      // see noteLost
	// present is the pod as the source returns it; nil: the source does not return it.
	present *v1.Pod
}

// presentPod returns the pod that the source returns, or nil.
func (p *podState) presentPod(hasContainers func(types.UID) bool) *v1.Pod {
	finished := p.last.Status.Phase == v1.PodSucceeded || p.last.Status.Phase == v1.PodFailed
	switch {
	case !finished && !p.deleted:
		return p.last
	case !hasContainers(p.last.UID):
		return nil
	case !finished:
		return p.last
	}
	// The manager tears down the volumes of finished pods, so the phase is Running.
	running := *p.last
	running.Status.Phase = v1.PodRunning
	return &running
}

// updatePod applies a change of the cache of pods.
func (s *Source) updatePod(change api.Change[*v1.Pod]) {
	s.updating.Lock()
	defer s.updating.Unlock()
	if change.Replay && change.Old != nil {
		return // a new list delivers the same state
	}
	before, _ := s.podOfNode(change.Old)
	now, err := s.podOfNode(change.New)
	if err != nil {
		s.config.Logger.Warn("mirror pod ignored", "namespace", change.New.Namespace, "pod", change.New.Name, "err", err)
	}
	isSameObject := change.Old != nil && change.New != nil && change.Old.UID == change.New.UID
	var warned error
	if before != nil && isMirror(before) {
		if warned = s.removeMirror(before); !isSameObject {
			s.noteLost(before)
			warned = nil
		}
	}
	if now != nil && isMirror(now) {
		s.addMirror(now, change.New.UID, warned)
	}
	s.followNodeForMirrors()
	if before != nil && !(now != nil && now.UID == before.UID && isMirror(now) == isMirror(before)) {
		s.endPod(before)
	}
	switch {
	case now == nil:
	case !isMirror(now):
		s.setPod(&podState{last: now})
	default:
		s.settle(now.UID)
		s.warnIfIgnored(s.mirrors[now.UID][change.Key()])
	}
}

// endPod applies the deletion of a pod.
func (s *Source) endPod(pod *v1.Pod) {
	if isMirror(pod) {
		s.settle(pod.UID)
		return
	}
	s.setPod(&podState{last: pod, deleted: true})
}

// ContainersEnded calls Config.HasContainers again for the finished and deleted ones among these
// pods. The source no longer returns those without containers. Unknown UIDs have no effect. Call it
// after the result of HasContainers has changed to false.
func (s *Source) ContainersEnded(pods ...types.UID) {
	s.updating.Lock()
	defer s.updating.Unlock()
	for _, uid := range pods {
		if state := s.podState(uid); state != nil {
			again := *state
			s.setPod(&again)
			s.settle(uid)
		}
	}
}

func (s *Source) podState(uid types.UID) *podState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pods[uid]
}

// setPod replaces the state of a pod and reports the change. The caller holds updating.
func (s *Source) setPod(state *podState) {
	uid := state.last.UID
	if isMirror(state.last) && state.hold == nil {
		s.staticPods.put(uid, identity{api.KeyOf(state.last), state.object, true})
	}
	before := s.storePod(state)
	if state.present == nil {
		s.tokens.forget(uid)
	}
	if before != nil || state.present != nil {
		s.subscribers.report(manager.Change{Pods: []types.UID{uid}})
	}
	if state.deleted && state.present == nil {
		s.staticPods.remove(uid)
		if isMirror(state.last) { // that of an ordinary pod is no static pod's
			s.settle(uid)
		}
	}
}

// storePod stores the state of a pod and returns the pod that was present before, or nil. The objects
// of a present pod are watched before the source returns the pod.
func (s *Source) storePod(state *podState) (before *v1.Pod) {
	uid := state.last.UID
	s.mu.Lock()
	defer s.mu.Unlock()
	// With mu: a pod that Pod returns after HasContainers has begun to return true stays present.
	state.present = state.presentPod(s.config.HasContainers)
	if old := s.pods[uid]; old != nil {
		before = old.present
	}
	had, needed := referencesOf(before), referencesOf(state.present)
	s.acquire(uid, needed)
	if state.deleted && state.present == nil {
		delete(s.pods, uid)
	} else {
		s.pods[uid] = state
	}
	s.release(uid, had, needed)
	return before
}

// syncPoll is the period of the check whether the source has received the first list of pods. Caches do
// not report this moment.
const syncPoll = 10 * time.Millisecond

// waitForPods waits for the first list of pods and, with mirror pods, for the node. It adds the local pods and the recorded static pods that are not in
// the list as deleted pods, and makes the source ready. It returns early if ctx ends, and an error if the cache has
// objects of another type.
func (s *Source) waitForPods(ctx context.Context, pods *api.Cache[*v1.Pod], synced func() bool) error {
	// An informer of another type would make a node without pods, whose volumes are torn down.
	if err := pods.WaitForSync(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("node: Config.Pods: %w", err)
	}
	ticker := time.NewTicker(syncPoll)
	defer ticker.Stop()
	for !synced() {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
	s.waitForNode(ctx)
	s.updating.Lock()
	defer s.updating.Unlock()
	known := s.known
	s.known, s.isListed = nil, true // from now on each UID that is known has a state
	for _, pod := range s.config.LocalPods {
		if s.podState(pod.UID) == nil {
			s.setPod(&podState{last: pod, object: known[pod.UID].object, deleted: true})
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(known)) {
		if s.podState(uid) == nil {
			owner := known[uid]
			s.setPod(&podState{last: s.heldPod(owner.name, uid), owner: &owner, hold: errNoMirror, deleted: true})
		}
	}
	s.settleMirrors()
	close(s.ready)
	s.subscribers.report(manager.Change{Everything: true})
	return nil
}

// Pods implements manager.PodSource: it returns the present pods, sorted by namespace and name. It
// waits for the first list of pods; if ctx ends first the error wraps the cause of ctx.
func (s *Source) Pods(ctx context.Context) ([]*v1.Pod, error) {
	if err := s.waitUntilReady(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	pods := make([]*v1.Pod, 0, len(s.pods))
	for _, state := range s.pods {
		if state.present != nil {
			pods = append(pods, state.present)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name+"/"+string(a.UID), b.Namespace+"/"+b.Name+"/"+string(b.UID))
	})
	return pods, nil
}

// Pod implements manager.IncrementalPodSource: it returns a present pod, and for any other UID an
// error for which apierrors.IsNotFound is true. Like Pods it waits for the first list. If Pod returns
// a pod for which Config.HasContainers returned true before the call, the pod stays present until
// ContainersEnded.
func (s *Source) Pod(ctx context.Context, uid types.UID) (*v1.Pod, error) {
	if err := s.waitUntilReady(ctx); err != nil {
		return nil, err
	}
	if state := s.podState(uid); state != nil && state.present != nil {
		return state.present, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("pods"), string(uid))
}

// waitUntilReady waits for the first list of pods, or returns an error if ctx ends first.
func (s *Source) waitUntilReady(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	default:
	}
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("pods of node %s: not listed yet: %w", s.config.Node, context.Cause(ctx))
	}
}

func (s *Source) isPresent(uid types.UID) bool {
	state := s.podState(uid)
	return state != nil && state.present != nil
}
