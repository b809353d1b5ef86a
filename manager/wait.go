package manager

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A WaitError says which volumes a call has waited for in vain, and why.
type WaitError struct {
	Pod     types.UID // empty: all pods
	Volumes []VolumeError
	Err     error // what ended the wait: the cause of the context
}

// A VolumeError is a volume that is not as it should be.
type VolumeError struct {
	Pod  types.UID
	Name string // in the pod
	Err  error  // the first cause
}

// Error names the volumes, each with its cause.
func (e *WaitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting for the volumes of pod %q", short(string(e.Pod)))
	for i, v := range e.Volumes {
		if i == 5 {
			fmt.Fprintf(&b, ", and %d more", len(e.Volumes)-i)
			break
		}
		fmt.Fprintf(&b, ", %s: %v", short(v.Name), v.Err)
	}
	return fmt.Sprintf("%s: %v", b.String(), e.Err)
}

// Unwrap returns what ended the wait, and the causes.
func (e *WaitError) Unwrap() []error {
	all := []error{e.Err}
	for _, v := range e.Volumes {
		all = append(all, v.Err)
	}
	return all
}

// WaitForAttachAndMount waits until all volumes that the pod's containers use are up, as
// the source's pod of the same UID wants them; one that the pod does not have never is.
// If ctx ends before, the error is a [*WaitError], which says how things are then; with a
// ctx that has ended it answers at once. It changes nothing: the source is what has them
// set up. Before Run, and after it has ended, nobody knows, and so it waits for the next,
// with [ErrNotRunning] as the cause.
func (m *Manager) WaitForAttachAndMount(ctx context.Context, pod *v1.Pod) error {
	return m.waitFor(ctx, pod.UID, func() []VolumeError { return m.notUp(pod) })
}

// WaitForUnmount waits until nothing of the pod is up or may be, and the source does not
// want it. Else it is like WaitForAttachAndMount.
func (m *Manager) WaitForUnmount(ctx context.Context, pod *v1.Pod) error {
	return m.waitFor(ctx, pod.UID, func() []VolumeError { return m.notDown(pod.UID) })
}

// WaitForAllPodsUnmount is WaitForUnmount for all pods.
func (m *Manager) WaitForAllPodsUnmount(ctx context.Context) error {
	return m.waitFor(ctx, "", func() []VolumeError { return m.notDown(m.allPods()...) })
}

// waitFor asks again each time something changes for the pod, or for any if it is
// empty.
func (m *Manager) waitFor(ctx context.Context, pod types.UID, missing func() []VolumeError) error {
	woken := m.addWaiter(pod)
	defer m.removeWaiter(pod, woken)
	for {
		over := ctx.Err() != nil
		m.mu.Lock()
		volumes := missing()
		m.mu.Unlock()
		switch {
		case len(volumes) == 0:
			return nil
		case over: // what is said is why it is missing then, not when it was looked last
			return &WaitError{pod, volumes, context.Cause(ctx)}
		}
		select {
		case <-woken:
		case <-ctx.Done():
		}
	}
}

func (m *Manager) addWaiter(pod types.UID) chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := make(chan struct{}, 1)
	if m.waiters[pod] == nil {
		m.waiters[pod] = map[chan struct{}]bool{}
	}
	m.waiters[pod][woken] = true
	return woken
}

func (m *Manager) removeWaiter(pod types.UID, woken chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.waiters[pod], woken); len(m.waiters[pod]) == 0 {
		delete(m.waiters, pod)
	}
}

var (
	errNotPopulated = errors.New("the source has not said yet which pods there are")
	errNotRestored  = errors.New("the manager has not looked yet")
	errNotWanted    = errors.New("the source does not have the pod yet")
	errStillWanted  = errors.New("the source still has the pod")
	errInLine       = errors.New("it is in line")
)

// notUp returns the volumes of the pod that are not up. The caller holds mu.
func (m *Manager) notUp(pod *v1.Pod) []VolumeError {
	var missing []VolumeError
	uses := usesOf(pod)
	for _, v := range pod.Spec.Volumes {
		if _, ok := uses[v.Name]; !ok {
			continue
		}
		if err := m.whyNotUp(podVolume{pod.UID, v.Name}); err != nil {
			missing = append(missing, VolumeError{pod.UID, v.Name, err})
		}
	}
	for _, name := range missingOf(pod, uses) {
		missing = append(missing, VolumeError{pod.UID, name, errNoSuchVolume})
	}
	return missing
}

// whyNotUp returns nil for a volume that is up. The caller holds mu.
func (m *Manager) whyNotUp(v podVolume) error {
	at, ok := m.want.places.named(v)
	switch {
	case !m.isRunning:
		return ErrNotRunning
	case !m.restored:
		return errNotRestored
	case errors.Is(m.want.failed[v], errRebound):
		return m.want.failed[v]
	case ok && m.isUp(at):
		return nil
	case m.want.failed[v] != nil:
		return m.want.failed[v]
	case !ok:
		return errNotWanted
	}
	return m.reason(at)
}

// isUp reports whether the volume is up in the pod, and not another of its name. The
// caller holds mu.
func (m *Manager) isUp(at place) bool {
	have := m.have.volumes[at.volume]
	return have != nil && have.stateOf(at.key) == present && !m.isAnother(at.volume)
}

// reason says why a volume is not as it is wanted. The caller holds mu.
func (m *Manager) reason(at place) error {
	for _, key := range []podKey{at.key, {}} {
		if err := m.failures[failureKey{at.volume, key}]; err != nil {
			return err
		}
	}
	if err := m.whyWaits(at); err != nil {
		return err
	}
	return m.orInLine(at.volume)
}

// orInLine says what is being done about a volume. The caller holds mu.
func (m *Manager) orInLine(name v1.UniqueVolumeName) error {
	f := m.flights[name]
	if f == nil {
		return errInLine
	}
	text := f.verb.String()
	if f.pod.pod != "" {
		text += " for pod " + short(string(f.pod.pod))
	}
	return fmt.Errorf("%s is under way since %s", text, f.since.Format(time.RFC3339))
}

// allPods are those that are wanted or there. The caller holds mu.
func (m *Manager) allPods() []types.UID {
	all := slices.AppendSeq(slices.Collect(maps.Keys(m.want.places)), maps.Keys(m.have.dirs))
	for at := range m.want.failed {
		all = append(all, at.pod)
	}
	for _, l := range m.leftovers {
		all = append(all, l.Pod)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// notDown returns what is left of pods. The caller holds mu.
func (m *Manager) notDown(pods ...types.UID) []VolumeError {
	switch {
	case !m.isRunning:
		return []VolumeError{{Err: ErrNotRunning}}
	case !m.restored:
		return []VolumeError{{Err: errNotRestored}}
	case !m.want.populated:
		return []VolumeError{{Err: errNotPopulated}}
	}
	var left []VolumeError
	for _, pod := range pods {
		left = append(left, m.stillWanted(pod)...)
		left = append(left, m.stillThere(pod)...)
	}
	for _, l := range m.leftovers {
		if _, ok := slices.BinarySearch(pods, l.Pod); ok && l.Pod != "" {
			left = append(left, VolumeError{l.Pod, l.Path, fmt.Errorf("it is not understood: %w", l.Err)})
		}
	}
	slices.SortFunc(left, func(a, b VolumeError) int { return strings.Compare(string(a.Pod)+"/"+a.Name, string(b.Pod)+"/"+b.Name) })
	return left
}

func (m *Manager) stillWanted(pod types.UID) (left []VolumeError) {
	for _, at := range m.want.places[pod] {
		left = append(left, VolumeError{pod, at.outer, errStillWanted})
	}
	for at := range m.want.failed {
		if _, listed := m.want.places.named(at); at.pod == pod && !listed {
			left = append(left, VolumeError{pod, at.name, errStillWanted})
		}
	}
	return left
}

func (m *Manager) stillThere(pod types.UID) (left []VolumeError) {
	for _, e := range m.have.dirs[pod] {
		key := podKey{pod, e.name}
		if m.have.volumes[e.volume].stateOf(key) != absent && m.want.volumes[e.volume].podsOrNone().get(key) == nil {
			left = append(left, VolumeError{pod, e.name, m.reason(place{e.volume, key})})
		}
	}
	return left
}
