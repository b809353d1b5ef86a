package sidecar_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/internal/metricstest"
)

// TestProber: the answer is 200 if the driver is ready, and 500 if it is not, fails, or does not answer in time.
func TestProber(t *testing.T) {
	inWorld(t, all, func(w *world) {
		metrics := metricstest.New(t)
		p, err := sidecar.NewProber(sidecar.DriverConfig{Conn: w.driver.Conn(), Timeout: time.Second, Metrics: metrics})
		require.NoError(w, err)
		status := func() int {
			answer := httptest.NewRecorder()
			p.ServeHTTP(answer, httptest.NewRequestWithContext(w.Context(), http.MethodGet, "/healthz", nil))
			return answer.Code
		}
		require.Equal(w, http.StatusOK, status())
		w.driver.SetReady(false)
		require.Equal(w, http.StatusInternalServerError, status())
		w.driver.SetReady(true)
		w.driver.Inject(csitest.Fault{Method: csitest.Probe, Code: codes.Internal, Times: 1})
		require.Equal(w, http.StatusInternalServerError, status())
		w.driver.Inject(csitest.Fault{Method: csitest.Probe, Hang: true, Times: 1})
		require.Equal(w, http.StatusInternalServerError, status())
		require.Equal(w, http.StatusOK, status())
		var want []string
		for _, code := range []string{"OK", "OK", "Internal", "DeadlineExceeded", "OK"} {
			want = append(want, sidecar.CallDuration+" driver_name=unknown-driver method_name=Probe grpc_status_code="+code)
		}
		require.Equal(w, want, metrics.Order())
		require.NoError(w, p.Close())
		require.Error(w, p.Probe(w.Context()))
	})
}
