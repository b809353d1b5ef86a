package driverprogram

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// probeTime is the time that the driver has to answer.
const probeTime = 10 * time.Second

// A health answers the liveness probes of a kubelet: 200 if the driver answers at its socket. Each probe is a new
// connection, which a socket that was removed, or is another's, does not accept.
type health struct{ endpoint string }

func (h health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.probe(r.Context()); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

func (h health) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	connection, err := grpc.NewClient("unix:"+h.endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close() }()
	_, err = csipb.NewIdentityClient(connection).Probe(ctx, &csipb.ProbeRequest{})
	return err
}

// serve serves /healthz until ctx ends.
func (h health) serve(ctx context.Context, address string, log *slog.Logger) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", h)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: probeTime}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); ctx.Err() == nil {
			log.Error("the answers to liveness probes have ended", "err", err)
		}
	}()
	return nil
}
