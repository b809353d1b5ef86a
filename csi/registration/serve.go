package registration

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/internal/socketfile"
	"github.com/volumekit/volumekit/util/ctxend"
)

// ServerConfig configures [Serve]. Dir and Endpoint are required.
type ServerConfig struct {
	// Dir is the absolute path of the directory that the node's agent watches, such as
	// /var/lib/kubelet/plugins_registry. It must exist.
	Dir string
	// Endpoint is the path of the driver's socket as the node's agent sees it.
	Endpoint string
	// Address is the path of the driver's socket as this process sees it, if Driver is "". "" means
	// Endpoint.
	Address string
	// Driver is the name of the driver. "": Serve asks the driver at Address, again and again until
	// it answers.
	Driver string
	// Versions are the supported versions of the CSI specification. Nil: 1.0.0.
	Versions []string
	// Registered is called after each registration that the agent reports. Nil: not called.
	Registered func()
	// Logger receives failures to ask the driver for its name. Nil: discarded.
	Logger *slog.Logger
}

// A RefusedError is the error of a driver that the node's agent has not registered.
type RefusedError struct {
	Driver string
	Reason string // of the agent, in one line
}

// Error returns the driver and the reason.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("registration of driver %s: refused: %s", e.Driver, input.Shorten(e.Reason))
}

// Serve registers a driver with the node's agent: a kubelet or a [Watcher]. It creates the socket
// <driver>-reg.sock in Dir, in place of an older one, and serves the registration API on it until
// ctx ends; then it removes the socket, by which the agent unregisters the driver, and returns nil.
// When the agent reports a failure Serve removes the socket and returns a [*RefusedError]; call it
// again after a pause. The socket appears when it accepts connections already, and is accessible to
// its owner only. If another process removes it, Serve puts a new one in its place, by which the agent registers the
// driver again: after 100 ms, or up to 10 seconds after Dir exists again.
//
// An invalid configuration is an *input.Error, and changes nothing. Serve does not remove a socket
// that another process has put in place of its own.
func Serve(ctx context.Context, config ServerConfig) error {
	config, err := config.checked()
	if err != nil {
		return err
	}
	if config.Driver == "" {
		if config.Driver, err = askName(ctx, config); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	listener, err := socketfile.Listen(filepath.Join(config.Dir, config.Driver+"-reg.sock"), true)
	if err != nil {
		return fmt.Errorf("registration of driver %s: %w", config.Driver, err)
	}
	listener.LogTo(config.Logger)
	return serveOn(ctx, listener, config)
}

func (c ServerConfig) checked() (ServerConfig, error) {
	c.Address = cmp.Or(c.Address, c.Endpoint)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Versions == nil {
		c.Versions = []string{"1.0.0"}
	}
	if c.Registered == nil {
		c.Registered = func() {}
	}
	c.Versions = slices.Clone(c.Versions)
	if !filepath.IsAbs(c.Dir) {
		return c, refuse.Refuse("Dir", c.Dir, "must be an absolute path")
	}
	if reason := checkEndpoint(c.Endpoint); reason != "" {
		return c, refuse.Refuse("Endpoint", c.Endpoint, reason)
	}
	if reason := checkEndpoint(c.Address); reason != "" {
		return c, refuse.Refuse("Address", c.Address, reason)
	}
	if err := checkVersions(c.Versions); err != nil {
		return c, refuse.Refuse("Versions", c.Versions, "must contain one of 1.x")
	}
	if c.Driver != "" {
		return c, c.checkDriver()
	}
	return c, nil
}

// checkDriver refuses a name that is invalid, or makes the path of the socket too long.
func (c ServerConfig) checkDriver() error {
	if err := checkDriverName(c.Driver); err != nil {
		return refuse.Refuse("Driver", c.Driver, "must be a DNS subdomain of at most 63 bytes")
	}
	if reason := connection.CheckEndpoint(filepath.Join(c.Dir, c.Driver+"-reg.sock")); reason != "" {
		return refuse.Refuse("Dir", c.Dir, "too long for the path of a socket")
	}
	return nil
}

// stopTime is the time that the calls in flight have after a refusal.
const stopTime = time.Second

// askPause is the pause after a driver has not answered with its name.
const askPause = time.Second

// askName asks the driver for its name until it answers. At the end of ctx it returns "".
func askName(ctx context.Context, config ServerConfig) (string, error) {
	conn, err := connection.Dial(config.Address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	for ctx.Err() == nil {
		answer, err := conn.Identity().GetPluginInfo(ctx, &csipb.GetPluginInfoRequest{})
		if err == nil {
			config.Driver = answer.GetName()
			return config.Driver, config.checkDriver()
		}
		config.Logger.Warn("asking the driver for its name failed", "address", config.Address, "err", err)
		_ = ctxend.Sleep(ctx, askPause)
	}
	return "", nil
}

// A server serves the registration API for one driver.
type server struct {
	registerapi.UnimplementedRegistrationServer
	config  ServerConfig
	refused chan *RefusedError // length 1
}

func serveOn(ctx context.Context, l net.Listener, config ServerConfig) error {
	s := &server{config: config, refused: make(chan *RefusedError, 1)}
	api := grpc.NewServer(grpc.MaxRecvMsgSize(connection.MaxMessage))
	registerapi.RegisterRegistrationServer(api, s)
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(l) }()
	select {
	case <-ctx.Done():
		api.Stop()
		<-ended
		return nil
	case err := <-s.refused:
		// The call that reported it gets its answer, and a client that keeps a call open does not
		// keep Serve.
		defer time.AfterFunc(stopTime, api.Stop).Stop()
		api.GracefulStop()
		<-ended
		if ctx.Err() != nil { // a driver that has ended with ctx is refused as well
			return nil
		}
		return err
	case err := <-ended:
		return fmt.Errorf("registration of driver %s: %w", config.Driver, err)
	}
}

// GetInfo implements the registration API.
func (s *server) GetInfo(context.Context, *registerapi.InfoRequest) (*registerapi.PluginInfo, error) {
	return &registerapi.PluginInfo{
		Type: registerapi.CSIPlugin, Name: s.config.Driver,
		Endpoint: s.config.Endpoint, SupportedVersions: s.config.Versions,
	}, nil
}

// NotifyRegistrationStatus implements the registration API.
func (s *server) NotifyRegistrationStatus(_ context.Context, status *registerapi.RegistrationStatus) (*registerapi.RegistrationStatusResponse, error) {
	if status.PluginRegistered {
		s.config.Registered()
		return &registerapi.RegistrationStatusResponse{}, nil
	}
	select {
	case s.refused <- &RefusedError{s.config.Driver, oneline.Of(status.Error)}:
	default:
	}
	return &registerapi.RegistrationStatusResponse{}, nil
}
