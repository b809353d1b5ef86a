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

// What a [PodError] wraps, besides the kind of error; see [volume.KindOf].
var (
	// ErrPodFailed: the scrub has failed, for what is in the volume or the template.
	// Final.
	ErrPodFailed = errors.New("the pod has failed")
	// ErrPodAltered: the pod that was created is not the one that was asked for; it
	// does not scrub, or not this volume. Final.
	ErrPodAltered = errors.New("the pod is not as it was asked for")
	// ErrPodEvicted: the node has ended the pod for reasons of its own, or was lost.
	// Transient.
	ErrPodEvicted = errors.New("the pod was evicted")
	// ErrPodDeleted: somebody has deleted the pod before it succeeded. Transient.
	ErrPodDeleted = errors.New("the pod was deleted by somebody else")
	// ErrPodForeign: a pod of this name is somebody else's. It was left alone.
	// Transient: the next pod has another name.
	ErrPodForeign = errors.New("the pod is somebody else's")
	// ErrPodTimeout: the pod did not succeed in time. Transient.
	ErrPodTimeout = errors.New("the pod has taken too long")
	// ErrPodImage: the pod's image is not to be had. Transient, and final if the
	// image cannot have such a name.
	ErrPodImage = errors.New("the pod's image cannot be pulled")
	// ErrPodAPI: the cluster did not do as it was asked. Transient if it could on
	// another day, or else final; the API's error is wrapped, too.
	ErrPodAPI = errors.New("the API failed")
	// ErrPodLeft: a pod of ours may be left. Uncertain, as it may still remove files,
	// or transient if it has ended. The next Recycle of the volume removes it first.
	ErrPodLeft = errors.New("the pod could not be removed")
)

// A PodError is a volume that was not recycled by a pod.
type PodError struct {
	Volume    string    // the persistent volume's name
	Namespace string    // of the pod
	Pod       string    // the name of the pod; empty: there was none
	UID       types.UID // of the pod; empty: not known
	Err       error     // wraps the cause, such as ErrPodEvicted, and the kind
}

// Error says what was recycled by which pod and what came of it.
func (e *PodError) Error() string {
	if e.Pod == "" {
		return fmt.Sprintf("recycle volume %q: %v", e.Volume, e.Err)
	}
	return fmt.Sprintf("recycle volume %q by pod %s/%s: %v", e.Volume, e.Namespace, e.Pod, e.Err)
}

// Unwrap returns the cause.
func (e *PodError) Unwrap() error { return e.Err }

// transient returns an error that is what and cause, and transient.
func transient(what, cause error) error {
	return fmt.Errorf("%w: %w (%w)", what, cause, volume.ErrTransient)
}

// apiError returns what an error of the client's is to us.
func apiError(op string, err error) error {
	if isFinal(err) {
		return fmt.Errorf("%s: %w: %w", op, ErrPodAPI, err)
	}
	return fmt.Errorf("%s: %w", op, transient(ErrPodAPI, err))
}

// isFinal reports whether the cluster has answered, and will answer the same the next
// time.
func isFinal(err error) bool {
	switch code := status(err); code {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusGone, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// isRefusal reports whether nothing was done and nothing will be, which is more than
// an error says that came from somewhere on the way.
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
		return http.StatusBadRequest // a status that somebody wrote by hand
	}
	return 0
}
