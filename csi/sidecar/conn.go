package sidecar

import (
	"cmp"
	"context"
	"path"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/manager"
	"google.golang.org/grpc"
)

// A limitedConn limits the duration of each call by its method.
type limitedConn struct {
	grpc.ClientConnInterface
	config DriverConfig
}

// Invoke calls the driver.
func (c limitedConn) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, c.config.timeoutOf(method))
	defer cancel()
	return c.ClientConnInterface.Invoke(ctx, method, request, answer, options...)
}

// timeoutOf returns the longest duration of a call of a method.
func (c DriverConfig) timeoutOf(method string) time.Duration {
	var own time.Duration
	switch method {
	case csipb.Controller_ControllerExpandVolume_FullMethodName:
		own = c.ExpandTimeout
	case csipb.Controller_ControllerModifyVolume_FullMethodName:
		own = c.ModifyTimeout
	}
	return cmp.Or(own, c.Timeout, connection.Timeout)
}

// longestTimeout returns the longest duration of all calls.
func (c DriverConfig) longestTimeout() time.Duration {
	return max(cmp.Or(c.Timeout, connection.Timeout), c.ExpandTimeout, c.ModifyTimeout)
}

// A measuredConn measures the calls of a driver.
type measuredConn struct {
	grpc.ClientConnInterface
	driver  string
	metrics manager.Metrics
}

// measured returns a connection that measures its calls, if the configuration has metrics. The name of the
// driver is "" if it is not known.
func (c DriverConfig) measured(conn grpc.ClientConnInterface, driver string) grpc.ClientConnInterface {
	if c.Metrics == nil {
		return conn
	}
	return measuredConn{conn, cmp.Or(driver, unknownDriver), c.Metrics}
}

// unknownDriver is the name of a driver before its answer.
const unknownDriver = "unknown-driver"

// Invoke calls the driver.
func (c measuredConn) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	began := time.Now()
	err := c.ClientConnInterface.Invoke(ctx, method, request, answer, options...)
	c.metrics.Observe(CallDuration, time.Since(began), manager.Label{Name: "driver_name", Value: c.driver},
		manager.Label{Name: "method_name", Value: path.Base(method)}, manager.Label{Name: "grpc_status_code", Value: codeOf(err).String()})
	return err
}
