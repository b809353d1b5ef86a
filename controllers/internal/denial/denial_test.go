package denial

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func webhook(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: `admission webhook "w.example.com" denied the request: no`}}
}

func webhookText(code int32, text string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: metav1.StatusReasonForbidden, Message: `admission webhook "w.example.com" denied the request: ` + text}}
}

func policy(code int32, reason metav1.StatusReason) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason,
		Message: `persistentvolumes "a" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: User "x" cannot have it`}}
}

// TestKinds: the answers of API servers.
func TestKinds(t *testing.T) {
	volumes := schema.GroupResource{Resource: "persistentvolumes"}
	right := apierrors.NewForbidden(volumes, "", errors.New(`User "system:serviceaccount:a:b" cannot create resource "persistentvolumes" in API group "" at the cluster scope`))
	quota := apierrors.NewForbidden(schema.GroupResource{Resource: "persistentvolumeclaims"}, "a", errors.New("exceeded quota: q, requested: requests.storage=2Gi"))
	for name, test := range map[string]struct {
		err             error
		is, byAdmission bool
	}{
		"no error":                {nil, false, false},
		"another error":           {errors.New("User \"a\" cannot"), false, false},
		"conflict":                {apierrors.NewConflict(volumes, "a", errors.New("changed")), false, false},
		"not found":               {apierrors.NewNotFound(volumes, "a"), false, false},
		"unauthorized":            {apierrors.NewUnauthorized("who"), false, false},
		"missing right":           {right, true, false},
		"quota":                   {quota, true, true},
		"webhook":                 {webhook(403, metav1.StatusReasonForbidden), true, true},
		"webhook without reason":  {webhook(403, ""), true, true},
		"webhook with 400":        {webhook(400, ""), true, true},
		"webhook with 406":        {webhook(406, ""), true, true},
		"webhook with 409":        {webhook(409, ""), true, true},
		"webhook with 500":        {webhook(500, ""), true, true},
		"not acceptable":          {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 406}}, true, true},
		"policy":                  {policy(422, metav1.StatusReasonInvalid), true, true},
		"policy with 401":         {policy(401, metav1.StatusReasonUnauthorized), true, true},
		"words of an authorizer":  {webhookText(403, `User "x" cannot use this class`), true, true},
		"a proxy":                 {apierrors.NewGenericServerResponse(403, "POST", volumes, "", "", 0, true), true, false},
		"webhook does not answer": {apierrors.NewInternalError(errors.New(`failed calling webhook "w.example.com": timeout`)), false, false},
	} {
		for _, err := range []error{test.err, errors.Join(test.err, nil), fmt.Errorf("patch claim: %w", test.err)} {
			if test.err == nil {
				err = nil
			}
			require.Equal(t, test.is, Is(err), name)
			require.Equal(t, test.byAdmission, IsByAdmission(err), name)
		}
	}
}
