package sidecar_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"

	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/manager"
)

// TestProber: the answer is 200 if the driver is ready, and 500 if it is not, fails, or does not answer in time.
func TestProber(t *testing.T) {
	inWorld(t, all, func(w *world) {
		metrics := &recorded{}
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
		require.Equal(w, []string{"OK", "OK", "Internal", "DeadlineExceeded", "OK"}, metrics.codes)
		require.NoError(w, p.Close())
		require.Error(w, p.Probe(w.Context()))
	})
}

// A recorded is a manager.Metrics that keeps the codes of calls.
type recorded struct {
	mu    sync.Mutex
	codes []string
}

func (r *recorded) Add(string, int, ...manager.Label) {}

func (r *recorded) Observe(name string, _ time.Duration, labels ...manager.Label) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, label := range labels {
		if name == sidecar.CallDuration && label.Name == "grpc_status_code" {
			r.codes = append(r.codes, label.Value)
		}
	}
}
