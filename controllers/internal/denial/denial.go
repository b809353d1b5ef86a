// Package denial recognizes requests that the API server denies.
package denial

import (
	"errors"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Is reports whether the API server denied a request: for a missing right, or by admission.
func Is(err error) bool {
	return apierrors.IsForbidden(err) || IsByAdmission(err)
}

// IsByAdmission reports whether admission denied an object, so that the same object will hardly be admitted. A webhook and a
// policy choose the code of their answer; the other plugins answer 403, as does an authorizer for a missing right, in
// words of its own.
func IsByAdmission(err error) bool {
	message := messageOf(err)
	switch {
	case isNamed(message, "admission webhook ", " denied the request"), isNamed(message, "ValidatingAdmissionPolicy ", " denied request"):
		return true
	case codeOf(err) == http.StatusNotAcceptable:
		return true
	}
	isMissingRight := isNamed(message, ` is forbidden: User "`, " cannot ")
	return apierrors.IsForbidden(err) && strings.Contains(message, " is forbidden: ") && !isMissingRight
}

// isNamed reports whether a message has a name between two texts.
func isNamed(message, before, after string) bool {
	_, rest, ok := strings.Cut(message, before)
	return ok && strings.Contains(rest, after)
}

func messageOf(err error) string {
	if status, ok := statusOf(err); ok {
		return status.Message
	}
	return ""
}

func codeOf(err error) int32 {
	status, _ := statusOf(err)
	return status.Code
}

func statusOf(err error) (status metav1.Status, ok bool) {
	var of apierrors.APIStatus
	if ok = errors.As(err, &of); ok {
		status = of.Status()
	}
	return status, ok
}
