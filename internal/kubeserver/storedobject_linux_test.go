package kubeserver_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/kubeserver"
)

// TestKubeRewrite: clients read a rewritten object. A missing key is an error.
func TestKubeRewrite(t *testing.T) {
	s := kubeserver.Start(t)
	c := newClient(t, s)
	require.Equal(t, http.StatusCreated, c.call(http.MethodPost, "/api/v1/namespaces/default/configmaps",
		map[string]any{"metadata": map[string]any{"name": "a"}, "data": map[string]string{"color": "green"}}, nil))
	paint := func(stored []byte) ([]byte, error) {
		require.Contains(t, string(stored), "green")
		return bytes.ReplaceAll(stored, []byte("green"), []byte("black")), nil
	}
	require.NoError(t, s.Rewrite(t.Context(), "/registry/configmaps/default/a", paint))
	var read struct{ Data map[string]string }
	require.Equal(t, http.StatusOK, c.call(http.MethodGet, "/api/v1/namespaces/default/configmaps/a", nil, &read))
	require.Equal(t, "black", read.Data["color"])
	require.ErrorContains(t, s.Rewrite(t.Context(), "/registry/configmaps/default/b", paint), "0 values")
}
