package sidecar

import (
	"context"
	"net/http"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/connection"
)

// A Prober reports whether a driver is alive. It is an http.Handler for the probes of a kubelet, as the
// sidecar livenessprobe serves them. It is safe for concurrent use.
type Prober struct {
	connection *connection.Connection
	identity   csipb.IdentityClient
}

// NewProber returns a Prober. It makes no call. The error is one of an invalid configuration.
func NewProber(config DriverConfig) (*Prober, error) {
	conn, err := config.open("")
	if err != nil {
		return nil, err
	}
	return &Prober{conn, csipb.NewIdentityClient(config.measured(conn, ""))}, nil
}

// Close ends the connection, and the calls in flight. A repeated Close has no effect. The error is always
// nil.
func (p *Prober) Close() error { return p.connection.Close() }

// Probe calls the driver, and returns an error if it does not answer in time, or is not ready.
func (p *Prober) Probe(ctx context.Context) error { return probe(ctx, p.identity) }

// ServeHTTP answers 200 if the driver is ready, and 500 with the error otherwise.
func (p *Prober) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := p.Probe(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}
