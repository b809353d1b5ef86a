package content

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestOptionalSources: a missing optional source is no error, be it missing in a cluster or in
// files.
func TestOptionalSources(t *testing.T) {
	optional := true
	for name, missing := range map[string]error{
		"cluster": apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, "config"),
		"files":   fmt.Errorf("ConfigMap \"config\": %w", fs.ErrNotExist),
	} {
		require.NoError(t, ignoreOptional(&optional, missing), name)
		require.ErrorIs(t, ignoreOptional(nil, missing), missing, name)
	}
	other := errors.New("the API server is away")
	require.ErrorIs(t, ignoreOptional(&optional, other), other)
}
