package notfound_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volumekit/volumekit/internal/notfound"
)

// TestNamed: an error for a missing object names the object once, whatever error the reader returns, and wraps it.
func TestNamed(t *testing.T) {
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for _, test := range []struct {
		err  error
		text string
	}{
		{fs.ErrNotExist, "claim a/b not found"},
		{notfound.Object("claim a/b"), "claim a/b not found"},
		{apierrors.NewNotFound(claims, "b"), "claim a/b not found"},
		{fmt.Errorf("%w", notfound.Object(`claim "a/b"`)), "claim a/b not found"},
		{fmt.Errorf("volume of %w", notfound.Object("x")), "claim a/b: volume of x not found"},
		{notfound.Object("namespace a"), "claim a/b: namespace a not found"},
		{apierrors.NewNotFound(claims, "a/b"), "claim a/b not found"},
		{fmt.Errorf(`claim "a/b": %w`, apierrors.NewNotFound(claims, "b")), "claim a/b not found"},
		{apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "a"), `claim a/b: namespaces "a" not found`},
		{apierrors.NewGenericServerResponse(http.StatusNotFound, "get", claims, "b", "no page", 0, true),
			"claim a/b: the server could not find the requested resource (get persistentvolumeclaims b)"},
		{&apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonNotFound, Message: "none"}}, "claim a/b: none"},
		{fmt.Errorf("claim a/b: %w", fs.ErrNotExist), "claim a/b not found"},
		{fmt.Errorf("%w", apierrors.NewNotFound(claims, "b")), "claim a/b not found"},
		{apierrors.NewForbidden(schema.GroupResource{}, "b", nil), "claim a/b: forbidden: <nil>"},
		{fmt.Errorf("no reader: %w", fs.ErrNotExist), "claim a/b: no reader: file does not exist"},
		{context.Canceled, "claim a/b: context canceled"},
	} {
		named := notfound.Named("claim a/b", test.err)
		require.EqualError(t, named, test.text)
		require.ErrorIs(t, named, test.err)
		require.Equal(t, notfound.Is(test.err), notfound.Is(named))
	}
	require.True(t, apierrors.IsNotFound(notfound.Named("claim a/b", apierrors.NewNotFound(schema.GroupResource{}, "b"))))
	require.ErrorIs(t, notfound.Object("claim a/b"), fs.ErrNotExist)
	require.EqualError(t, notfound.Object("claim a/b"), "claim a/b not found")
	require.Less(t, len(notfound.Object(strings.Repeat("n", 1<<20)).Error()), 2000)
	require.Less(t, len(notfound.Named(strings.Repeat("n", 1<<20), fs.ErrPermission).Error()), 2000)
}
