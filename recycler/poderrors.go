package recycler

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/volumekit/volumekit/volume"
)

// Causes of a [PodError]; it wraps one, and the kind of error, see [volume.KindOf].
var (
	// ErrPodFailed: the scrub has failed, because of the volume's files or the template.
	// Final.
	ErrPodFailed = errors.New("the pod has failed")
	// ErrPodAltered: the created pod differs from the requested one: it does not scrub,
	// or not this volume. Final.
	ErrPodAltered = errors.New("the pod differs from the requested one")
	// ErrPodEvicted: the node has ended the pod for reasons of its own, or was lost.
	// Transient.
	ErrPodEvicted = errors.New("the pod was evicted")
	// ErrPodDeleted: another client has deleted the pod before it succeeded. Transient.
	ErrPodDeleted = errors.New("the pod was deleted by another client")
	// ErrPodForeign: a pod of this name has another owner. It was left alone.
	// Transient: the next pod has another name.
	ErrPodForeign = errors.New("the pod has another owner")
	// ErrPodTimeout: the pod did not succeed in time. Transient.
	ErrPodTimeout = errors.New("the pod did not end in time")
	// ErrPodImage: the pod's image cannot be pulled. Transient, or final if the image's
	// name is invalid.
	ErrPodImage = errors.New("the pod's image cannot be pulled")
	// ErrPodAPI: the API refused or failed. Transient if a later call may succeed, else
	// final; the API's error is wrapped, too.
	ErrPodAPI = errors.New("the API failed")
	// ErrPodLeft: a pod of this recycler may be left. Uncertain, as it may still remove
	// files, or transient if it has ended. The next Recycle of the volume removes it first.
	ErrPodLeft = errors.New("the pod could not be removed")
)

// A PodError reports that a volume was not recycled by a pod.
type PodError struct {
	Volume    string    // the persistent volume's name
	Namespace string    // of the pod
	Pod       string    // the name of the pod; empty: there was none
	UID       types.UID // of the pod; empty: not known
	Err       error     // wraps the cause, such as ErrPodEvicted, and the kind
}

// Error names the volume, the pod and the cause.
func (e *PodError) Error() string {
	if e.Pod == "" {
		return fmt.Sprintf("recycle volume %q: %v", e.Volume, e.Err)
	}
	return fmt.Sprintf("recycle volume %q by pod %s/%s: %v", e.Volume, e.Namespace, e.Pod, e.Err)
}

// Unwrap returns the cause.
func (e *PodError) Unwrap() error { return e.Err }

// transient returns a transient error that wraps reason and cause.
func transient(reason, cause error) error {
	return volume.AsTransient(fmt.Errorf("%w: %w", reason, cause))
}

// apiError wraps an error of the client with its kind.
func apiError(op string, err error) error {
	if isFinal(err) {
		return fmt.Errorf("%s: %w: %w", op, ErrPodAPI, err)
	}
	return fmt.Errorf("%s: %w", op, transient(ErrPodAPI, err))
}

// isFinal reports whether the cluster refused a call in a way that a retry does not
// change.
func isFinal(err error) bool {
	switch code := status(err); code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// isRefusal reports whether the server certainly does not execute the call. After most
// errors of the network the server may still execute it.
func isRefusal(err error) bool {
	code := status(err)
	return utilnet.IsConnectionRefused(err) ||
		code >= 400 && code < 500 && code != http.StatusRequestTimeout
}

// status returns the code of an API error, or 0.
func status(err error) int {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		return 0
	}
	if code := int(api.Status().Code); code != 0 {
		return code
	}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsInvalid(err),
		apierrors.IsUnauthorized(err), apierrors.IsBadRequest(err):
		return http.StatusBadRequest // a hand-made status without a code
	}
	return 0
}
