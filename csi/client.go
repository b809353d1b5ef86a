package csi

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/internal/condition"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// ErrNotRegistered is wrapped by the transient error of a call for a volume whose driver is not
// registered on the node.
var ErrNotRegistered = errors.New("the driver is not registered")

// A client calls one registered driver.
type client struct {
	Driver
	connection *connection.Connection
	node       csipb.NodeClient
	caps       *capabilities // nil: not read yet; guarded by clients.mu
}

// clients are the connections to drivers, by name. The zero value has none.
type clients struct {
	reading keylock.Map // by driver: capabilities are read once

	mu      sync.Mutex // guards the fields below
	all     map[string]*client
	retired map[*client]*time.Timer // clients of earlier registrations, whose calls may be in flight
}

// clientOf returns the client of a registered driver, and the capabilities of its node service. An
// error is transient, or is one of an invalid endpoint.
func (p *Plugin) clientOf(ctx context.Context, driver string) (*client, capabilities, error) {
	registered, ok := p.config.Drivers.Driver(driver)
	if !ok {
		p.clients.forget(driver)
		return nil, capabilities{}, volume.AsTransient(fmt.Errorf("driver %s: %w", driver, ErrNotRegistered))
	}
	c, err := p.clients.connect(driver, registered)
	if err != nil {
		return nil, capabilities{}, err
	}
	caps, err := p.clients.capabilitiesOf(ctx, c)
	return c, caps, err
}

// connect returns the client of a registration. It retires that of an earlier registration.
func (all *clients) connect(driver string, registered Driver) (*client, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	known := all.all[driver]
	if known != nil && known.Registration == registered.Registration && known.Endpoint == registered.Endpoint {
		return known, nil
	}
	conn, err := connection.Open(connection.Config{Endpoint: registered.Endpoint, Driver: driver, Conn: registered.Conn})
	if err != nil {
		return nil, fmt.Errorf("driver %s: %w", driver, err)
	}
	all.retire(known)
	if all.all == nil {
		all.all = map[string]*client{}
	}
	c := &client{Driver: registered, connection: conn, node: conn.Node()}
	c.Name = driver
	all.all[driver] = c
	return c, nil
}

// retire closes the connection of a client when all calls that are in flight have ended: a driver that
// removes its registration may still answer them. The caller holds mu.
func (all *clients) retire(c *client) {
	if c == nil {
		return
	}
	if all.retired == nil {
		all.retired = map[*client]*time.Timer{}
	}
	all.retired[c] = time.AfterFunc(connection.Timeout, func() {
		_ = c.connection.Close()
		all.mu.Lock()
		defer all.mu.Unlock()
		delete(all.retired, c)
	})
}

// forget retires the client of a driver that is no longer registered.
func (all *clients) forget(driver string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.retire(all.all[driver])
	delete(all.all, driver)
}

func (all *clients) closeAll() {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, c := range all.all {
		_ = c.connection.Close()
	}
	for c, timer := range all.retired {
		timer.Stop()
		_ = c.connection.Close()
	}
	all.all, all.retired = nil, nil
}

// capabilities are those of a driver's node service.
type capabilities struct {
	stage, stats, condition, expand, singleNodeMultiWriter, mountGroup bool
}

func (all *clients) known(c *client) *capabilities {
	all.mu.Lock()
	defer all.mu.Unlock()
	return c.caps
}

// capabilitiesOf calls the driver once for each registration. An error is transient: nothing has
// changed.
func (all *clients) capabilitiesOf(ctx context.Context, c *client) (capabilities, error) {
	if caps := all.known(c); caps != nil {
		return *caps, nil
	}
	unlock, err := all.reading.Lock(ctx, c.Name)
	if err != nil {
		return capabilities{}, volume.AsTransient(fmt.Errorf("waiting for the capabilities of driver %s: %w", c.Name, err))
	}
	defer unlock()
	if caps := all.known(c); caps != nil {
		return *caps, nil
	}
	answer, err := c.node.NodeGetCapabilities(ctx, &csipb.NodeGetCapabilitiesRequest{})
	if err != nil {
		return capabilities{}, &harmlessError{fmt.Errorf("read the capabilities: %w", err)}
	}
	caps := capabilitiesFrom(answer)
	all.mu.Lock()
	defer all.mu.Unlock()
	c.caps = &caps
	return caps, nil
}

func capabilitiesFrom(answer *csipb.NodeGetCapabilitiesResponse) (caps capabilities) {
	for _, capability := range answer.GetCapabilities() {
		switch capability.GetRpc().GetType() {
		case csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME:
			caps.stage = true
		case csipb.NodeServiceCapability_RPC_GET_VOLUME_STATS:
			caps.stats = true
		case condition.Capability:
			caps.condition = true
		case csipb.NodeServiceCapability_RPC_EXPAND_VOLUME:
			caps.expand = true
		case csipb.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER:
			caps.singleNodeMultiWriter = true
		case csipb.NodeServiceCapability_RPC_VOLUME_MOUNT_GROUP:
			caps.mountGroup = true
		}
	}
	return caps
}
