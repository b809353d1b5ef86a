package driverprogram

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/csitest"
)

// TestHealth: a driver that answers, one without a socket, and one that has ended.
func TestHealth(t *testing.T) {
	dir, err := os.MkdirTemp("", "h") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "csi.sock")
	driver := csitest.NewDriver(csitest.Config{})
	require.NoError(t, driver.Listen(socket))
	defer func() { _ = driver.Close() }()
	status := func() int {
		answer := httptest.NewRecorder()
		health{socket}.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
		return answer.Code
	}
	require.Equal(t, http.StatusOK, status())
	require.NoError(t, os.Rename(socket, socket+"-away"))
	require.Equal(t, http.StatusInternalServerError, status())
	require.NoError(t, os.Rename(socket+"-away", socket))
	require.Equal(t, http.StatusOK, status())
	require.NoError(t, driver.Close())
	require.Equal(t, http.StatusInternalServerError, status())
}

// TestServeHealth: an address in use is an error.
func TestServeHealth(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	require.Error(t, health{"/csi.sock"}.serve(t.Context(), server.Listener.Addr().String(), log))
	require.NoError(t, health{"/csi.sock"}.serve(t.Context(), "127.0.0.1:0", log))
}
