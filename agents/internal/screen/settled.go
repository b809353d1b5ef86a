package screen

import (
	"fmt"

	"github.com/volumekit/volumekit/manager"
)

// mounted is the state of a volume that is set up.
const mounted = "mounted"

// IsSettled reports whether the desired state is reached.
func IsSettled(s manager.State) bool {
	if !s.Restored || !s.Populated || len(s.Failed) > 0 {
		return false
	}
	for _, v := range s.Volumes {
		if v.Operation != "" || v.Err != nil || len(v.Pods) == 0 {
			return false
		}
		for _, pod := range v.Pods {
			if pod.Phase() != mounted || pod.Waits != nil {
				return false
			}
		}
	}
	return true
}

// cause returns the reason why a pod's volume differs from the desired state: the last
// error for the pod, or for the volume, or the operation that has to come first.
func cause(v manager.VolumeState, pod manager.PodState) error {
	for _, err := range []error{pod.Err, v.Err} {
		if err != nil {
			return err
		}
	}
	return pod.Waits
}

// WithCauses returns err with the reasons why volumes differ from the desired state.
func WithCauses(err error, state manager.State) error {
	for _, f := range state.Failed {
		err = fmt.Errorf("%w; volume %s: %w", err, f.Name, f.Err)
	}
	for _, v := range state.Volumes {
		for _, pod := range podsOf(v) {
			if why := cause(v, pod); why != nil {
				err = fmt.Errorf("%w; volume %s: %w", err, pod.Name, why)
			}
		}
	}
	return err
}

// podsOf returns the pods of a volume; a volume without pods has one empty name.
func podsOf(v manager.VolumeState) []manager.PodState {
	if len(v.Pods) == 0 {
		return []manager.PodState{{Name: string(v.Unique)}}
	}
	return v.Pods
}
