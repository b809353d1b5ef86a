package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util/ctxend"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// DriverConfig describes the connection to a driver. Endpoint or Conn is required.
type DriverConfig struct {
	// Endpoint is the absolute path of the driver's socket.
	Endpoint string
	// Conn is a connection to a driver in the same process, which has no socket. Nil: the driver is at
	// Endpoint.
	Conn grpc.ClientConnInterface
	// Timeout is the longest duration of a call. 0: 2 minutes.
	Timeout time.Duration
	// ExpandTimeout and ModifyTimeout are the longest durations of ControllerExpandVolume and ControllerModifyVolume.
	// 0: Timeout.
	ExpandTimeout, ModifyTimeout time.Duration
	// MaxWaiting is the most calls that wait for another call for the same volume; further ones fail with a transient
	// error. It must be less than the workers of a controller: a driver that hangs for one volume occupies the
	// others otherwise. 0: 8.
	MaxWaiting int
	// Metrics receives CallDuration. Nil: discarded.
	Metrics manager.Metrics
	// Logger receives failures to reach the driver. Nil: discarded.
	Logger *slog.Logger
}

// A Driver is a connection to a CSI driver with the controller service, whose name and capabilities are
// known. [Open] returns one. It is safe for concurrent use.
type Driver struct {
	name         string
	capabilities capabilities
	connection   *connection.Connection
	controller   csipb.ControllerClient
}

const defaultMaxWaiting = 8

// probePause is the pause between two calls of a driver that does not answer.
const probePause = time.Second

// Open waits until a driver is ready, and reads its name and its capabilities. It fails for an invalid
// configuration, for a driver with an invalid name, and when ctx ends.
//
// A driver that restarts is reached again with the next call. Its capabilities are not read again: open it
// anew after an upgrade.
func Open(ctx context.Context, config DriverConfig) (*Driver, error) {
	if config.MaxWaiting < 0 {
		return nil, fmt.Errorf("sidecar: %w", field.Invalid(field.NewPath("DriverConfig", "MaxWaiting"), config.MaxWaiting, "must be at least 0"))
	}
	first, err := config.open("")
	if err != nil {
		return nil, err
	}
	defer func() { _ = first.Close() }()
	d := new(Driver)
	if d.name, err = awaitAnswer(ctx, config, func() (string, error) { return identify(ctx, config.measured(first, "")) }); err != nil {
		return nil, fmt.Errorf("sidecar: open the driver: %w", err)
	}
	if !isDriverName(d.name) {
		return nil, input.Operation("sidecar").Refuse("name of the driver", d.name, "must be a DNS subdomain of at most 63 bytes")
	}
	if d.connection, err = config.open(d.name); err != nil {
		return nil, err
	}
	conn := config.measured(limitedConn{d.connection, config}, d.name)
	d.controller = exclusiveController{csipb.NewControllerClient(conn), newVolumeLocks(cmp.Or(config.MaxWaiting, defaultMaxWaiting))}
	if d.capabilities, err = awaitAnswer(ctx, config, func() (capabilities, error) { return readCapabilities(ctx, conn) }); err != nil {
		_ = d.Close()
		return nil, fmt.Errorf("sidecar: open the driver: %w", err)
	}
	return d, nil
}

// awaitAnswer calls read until it succeeds, with pauses, and returns the error of an ended ctx.
func awaitAnswer[T any](ctx context.Context, config DriverConfig, read func() (T, error)) (answer T, err error) {
	logger := cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	for {
		if answer, err = read(); err == nil {
			return answer, nil
		}
		if ctx.Err() != nil {
			return answer, ctxend.Error(ctx)
		}
		logger.Warn("the driver is not ready", "err", err)
		_ = ctxend.Sleep(ctx, probePause)
	}
}

// identify returns the name of a driver that is ready.
func identify(ctx context.Context, conn grpc.ClientConnInterface) (string, error) {
	identity := csipb.NewIdentityClient(conn)
	if err := probe(ctx, identity); err != nil {
		return "", err
	}
	info, err := identity.GetPluginInfo(ctx, &csipb.GetPluginInfoRequest{})
	return info.GetName(), err
}

// open returns the connection to a driver, whose name is "" if it is not known. It does not connect yet.
func (c DriverConfig) open(name string) (*connection.Connection, error) {
	if name == "" && c.Conn != nil {
		name = "in this process"
	}
	conn, err := connection.Open(connection.Config{Endpoint: c.Endpoint, Conn: c.Conn, Timeout: c.longestTimeout(), Driver: name})
	if err != nil {
		return nil, fmt.Errorf("sidecar: %w", err)
	}
	return conn, nil
}

// Name returns the name of the driver.
func (d *Driver) Name() string { return d.name }

// Close ends the connection, and the calls in flight. A repeated Close has no effect. The error is always
// nil.
func (d *Driver) Close() error { return d.connection.Close() }

// probe returns an error for a driver that is not ready. A driver that does not say is ready.
func probe(ctx context.Context, identity csipb.IdentityClient) error {
	answer, err := identity.Probe(ctx, &csipb.ProbeRequest{})
	switch {
	case err != nil:
		return err
	case answer.GetReady() != nil && !answer.GetReady().GetValue():
		return errors.New("the driver reports that it is not ready")
	}
	return nil
}

// longestDriverName is the limit of the specification, in bytes.
const longestDriverName = 63

func isDriverName(name string) bool {
	lower := make([]byte, len(name))
	for i := range len(name) {
		lower[i] = name[i]
		if 'A' <= name[i] && name[i] <= 'Z' {
			lower[i] += 'a' - 'A'
		}
	}
	return len(name) <= longestDriverName && len(validation.IsDNS1123Subdomain(string(lower))) == 0
}

// codeOf returns the code of an error of a call.
func codeOf(err error) codes.Code { return status.Code(err) }
