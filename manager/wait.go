package manager

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/podspec"
	"github.com/volumekit/volumekit/manager/internal/populate"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A WaitError lists the volumes that a wait has failed on, with causes.
type WaitError struct {
	Pod     types.UID // empty: all pods
	Volumes []VolumeError
	Err     error // the cause of the context, or ErrFinal
}

// A VolumeError is a volume that has not reached its desired state.
type VolumeError struct {
	Pod  types.UID
	Name string // in the pod
	Err  error  // the first cause
	// Final says that Err is permanent while the pod and its volume stay as they are. The manager
	// retries nevertheless.
	Final bool
}

// Error names the volumes, each with its cause.
func (e *WaitError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "waiting for the volumes of pod %q", brief.Name(string(e.Pod)))
	for i, v := range e.Volumes {
		if i == 5 {
			fmt.Fprintf(&b, ", and %d more", len(e.Volumes)-i)
			break
		}
		fmt.Fprintf(&b, ", %s: %v", brief.Name(v.Name), v.Err)
	}
	return fmt.Sprintf("%s: %v", b.String(), e.Err)
}

// Unwrap returns Err and the causes of the volumes.
func (e *WaitError) Unwrap() []error {
	all := []error{e.Err}
	for _, v := range e.Volumes {
		all = append(all, v.Err)
	}
	return all
}

// ErrNotBound is wrapped by the error of a volume whose claim is unusable: not bound, bound to
// another volume, being deleted and not yet used by the pod, or with a volume for other nodes.
var ErrNotBound = populate.ErrNotBound

// WaitForAttachAndMount waits until all volumes that the pod's containers use are up, as the
// source's pod of the same UID needs them; a volume that the source's pod lacks never comes up.
// If ctx ends first, the error is a [*WaitError] with the state of the volumes at that time;
// with an ended ctx it returns at once. It only waits: volumes are set up because the source
// has the pod. Before Run and after its end the call waits for the next Run, with
// [ErrNotRunning] as the cause. A final failure does not end the wait: see WaitForVolumes. A
// nil pod, or a pod without a UID, is refused with a [*field.Error].
func (m *Manager) WaitForAttachAndMount(ctx context.Context, pod *v1.Pod) error {
	return m.WaitForVolumes(ctx, pod, WaitOptions{})
}

// WaitForVolumes is WaitForAttachAndMount with options, of which NewContainer also requests work.
func (m *Manager) WaitForVolumes(ctx context.Context, pod *v1.Pod, options WaitOptions) error {
	if err := checkPod(field.NewPath("pod"), pod); err != nil {
		return err
	}
	up := func(s *snapshot) []VolumeError { return s.missingVolumes(pod) }
	if err := m.waitFor(ctx, pod.UID, options, up); err != nil || !options.NewContainer {
		return err
	}
	renewals := m.renew(pod.UID)
	return m.waitFor(ctx, pod.UID, options, func(s *snapshot) []VolumeError {
		if missing := up(s); len(missing) > 0 {
			return missing
		}
		return s.unfinished(renewals)
	})
}

// WaitOptions set what a wait is for, and when it ends. The zero value waits for success or the end of
// the context.
type WaitOptions struct {
	// EndOnFinalError ends the wait with [ErrFinal] when a volume fails for good, see
	// [VolumeError].Final: its specification is invalid, no plugin supports it, or the plugin's
	// error is final (volume.KindOf). It is for agents that report a pod as failed instead of
	// waiting. Steps that the cluster has yet to do, such as binding a claim, are not final, nor
	// are errors of the source.
	EndOnFinalError bool
	// NewContainer says that the caller is about to start a container of the pod. When the volumes are
	// up, it requests another SetUp of all volumes of the pod whose files other programs may have
	// replaced on the node (volume.RenewableVolumePlugin, such as a hostPath), and waits for that,
	// so that the container gets what is at the path now. If the plugin cannot mount that, because it is
	// missing or of another type, the wait continues, as for a new pod, while the volume stays up
	// as it was for the other containers. The manager repeats the SetUp until it succeeds, also
	// after the end of the wait.
	NewContainer bool
}

// ErrFinal ends waits with [WaitOptions].EndOnFinalError.
var ErrFinal = errors.New("permanent failure of a volume")

// WaitForUnmount waits until no volume of the pod is or may be up, and the source no longer
// has the pod. Otherwise it is like WaitForAttachAndMount.
func (m *Manager) WaitForUnmount(ctx context.Context, pod *v1.Pod) error {
	if err := checkPod(field.NewPath("pod"), pod); err != nil {
		return err
	}
	return m.waitFor(ctx, pod.UID, WaitOptions{}, func(s *snapshot) []VolumeError { return s.remainingVolumes(pod.UID) })
}

// WaitForAllPodsUnmount is WaitForUnmount for all pods.
func (m *Manager) WaitForAllPodsUnmount(ctx context.Context) error {
	return m.waitFor(ctx, "", WaitOptions{}, func(s *snapshot) []VolumeError { return s.remainingVolumes(s.allPods()...) })
}

// waitFor waits until missing returns no volume. It calls missing again after each change of
// the pod; with an empty pod, after each change of any pod.
func (m *Manager) waitFor(ctx context.Context, pod types.UID, options WaitOptions, missing func(*snapshot) []VolumeError) error {
	woken := m.waiters.Add(pod)
	defer m.waiters.Remove(pod, woken)
	for {
		ended := ctx.Err() != nil
		volumes := missing(m.published())
		switch {
		case len(volumes) == 0:
			return nil
		case ended: // the volumes are those after the end of ctx
			return &WaitError{pod, volumes, context.Cause(ctx)}
		case options.EndOnFinalError && slices.ContainsFunc(volumes, func(v VolumeError) bool { return v.Final }):
			return &WaitError{pod, volumes, ErrFinal}
		}
		select {
		case <-woken:
		case <-ctx.Done():
		}
	}
}

var (
	errNotPopulated   = errors.New("the source has not returned its pods yet")
	errNotRestored    = errors.New("the manager has not restored its state yet")
	errPodNotInSource = errors.New("the source does not have the pod yet")
	errPodInSource    = errors.New("the source still has the pod")
	errQueued         = errors.New("the operation is queued")
)

// missingVolumes returns the volumes of the pod that are not up.
func (s *snapshot) missingVolumes(pod *v1.Pod) []VolumeError {
	var missing []VolumeError
	uses := podspec.UsesOf(pod)
	for _, v := range pod.Spec.Volumes {
		if _, ok := uses[v.Name]; !ok {
			continue
		}
		if why := s.missingVolume(naming.PodVolume{Pod: pod.UID, Name: v.Name}); why.Err != nil {
			missing = append(missing, why)
		}
	}
	for _, name := range podspec.MissingOf(pod, uses) {
		missing = append(missing, s.failedVolume(naming.PodVolume{Pod: pod.UID, Name: name}, populate.ErrNoSuchVolume))
	}
	return missing
}

// missingVolume returns why a volume is not up; without an error it is up.
func (s *snapshot) missingVolume(v naming.PodVolume) VolumeError {
	at, ok := s.want.PlaceNamed(v)
	failed := s.want.FailureOf(v)
	not := func(err error) VolumeError { return VolumeError{Pod: v.Pod, Name: v.Name, Err: err} }
	switch {
	case !s.isRunning:
		return not(ErrNotRunning)
	case !s.restored:
		return not(errNotRestored)
	case populate.IsMismatch(failed):
		return s.failedVolume(v, failed)
	case ok && s.isUp(at):
		return VolumeError{}
	case failed != nil:
		return s.failedVolume(v, failed)
	case !ok:
		return not(errPodNotInSource)
	}
	return s.causeOf(at, v.Name)
}

// failedVolume returns the error of an unresolved volume.
func (s *snapshot) failedVolume(v naming.PodVolume, err error) VolumeError {
	return VolumeError{v.Pod, v.Name, err, isFinal(err)}
}

// isFinal reports whether the failure is permanent: no change of the cluster or of
// other pods can end it.
func isFinal(err error) bool {
	return populate.IsFinal(err) && !errors.Is(err, operation.ErrMountedForReaders)
}

// isUp reports whether the desired volume, not another one of its name, is up in the pod.
func (s *snapshot) isUp(at naming.Place) bool {
	have := s.have.Volumes.Get(at.Volume)
	return have != nil && have.StateOf(at.Key) == actual.Present && !s.isRecreated(at.Volume)
}

// unfinished returns the volumes that have not been set up again as requested.
func (s *snapshot) unfinished(renewals []renewal) (left []VolumeError) {
	for _, r := range renewals {
		have := s.have.Volumes.Get(r.at.Volume)
		if have == nil || s.schedule.Revisions.Get(r.at.Key) < r.revision {
			continue // the request went with the pod; if the pod has returned its volumes are new
		}
		if pod := have.Pods.Get(r.at.Key); pod == nil || pod.Revision < r.revision {
			left = append(left, s.causeOf(r.at, r.name))
		}
	}
	return left
}

// causeOf returns why a volume has not reached its desired state.
func (s *snapshot) causeOf(at naming.Place, name string) VolumeError {
	why := VolumeError{Pod: at.Key.Pod, Name: name}
	for _, key := range []naming.PodKey{at.Key, {}} {
		if err := s.failures.Get(failureKey{at.Volume, key}); err != nil {
			why.Err, why.Final = err, isFinal(err)
			return why
		}
	}
	if why.Err = s.waitReason(at); why.Err == nil {
		why.Err = s.progressOf(at.Volume)
	}
	return why
}

// progressOf returns the in-flight operation of a volume as an error.
func (s *snapshot) progressOf(name v1.UniqueVolumeName) error {
	flights := s.schedule.Of(name)
	if len(flights) == 0 {
		return errQueued
	}
	f := flights[0]
	text := f.Verb.String()
	if f.Pod.Pod != "" {
		text += " for pod " + brief.Name(string(f.Pod.Pod))
	}
	return fmt.Errorf("%s in flight since %s", text, f.Since.Format(time.RFC3339))
}

// allPods returns the pods that are desired or have existing volumes or leftovers.
func (s *snapshot) allPods() []types.UID {
	all := slices.AppendSeq(slices.Collect(s.want.Demands.Keys()), s.have.Dirs.Pods.Keys())
	for _, l := range s.leftovers {
		all = append(all, l.Pod)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// remainingVolumes returns the volumes and leftovers of pods that are not gone.
func (s *snapshot) remainingVolumes(pods ...types.UID) []VolumeError {
	switch {
	case !s.isRunning:
		return []VolumeError{{Err: ErrNotRunning}}
	case !s.restored:
		return []VolumeError{{Err: errNotRestored}}
	case !s.want.Populated:
		return []VolumeError{{Err: errNotPopulated}}
	}
	var left []VolumeError
	for _, pod := range pods {
		left = append(left, s.stillDesired(pod)...)
		left = append(left, s.stillUp(pod)...)
	}
	for _, l := range s.leftovers {
		if _, ok := slices.BinarySearch(pods, l.Pod); ok && l.Pod != "" {
			left = append(left, VolumeError{Pod: l.Pod, Name: l.Path, Err: fmt.Errorf("unrecognized volume: %w", l.Err)})
		}
	}
	slices.SortFunc(left, func(a, b VolumeError) int { return strings.Compare(string(a.Pod)+"/"+a.Name, string(b.Pod)+"/"+b.Name) })
	return left
}

// stillDesired returns the desired and unresolved volumes of a pod.
func (s *snapshot) stillDesired(pod types.UID) (left []VolumeError) {
	demand := s.want.Demands.Get(pod)
	for _, w := range demand.VolumesOrNone() {
		left = append(left, VolumeError{Pod: pod, Name: w.Pod.OuterName, Err: errPodInSource})
	}
	for _, f := range demand.FailedOrNone() {
		if _, listed := demand.VolumeNamed(f.Name); !listed {
			left = append(left, VolumeError{Pod: pod, Name: f.Name, Err: errPodInSource})
		}
	}
	return left
}

// stillUp returns the undesired volumes that are, or may be, up in a pod.
func (s *snapshot) stillUp(pod types.UID) (left []VolumeError) {
	for _, e := range s.have.Dirs.Of(pod) {
		key := naming.PodKey{Pod: pod, Name: e.Name}
		if s.have.Volumes.Get(e.Volume).StateOf(key) != actual.Absent && s.want.Volumes.Get(e.Volume).PodsOrNone().Get(key) == nil {
			left = append(left, s.causeOf(naming.Place{Volume: e.Volume, Key: key}, e.Name))
		}
	}
	return left
}
