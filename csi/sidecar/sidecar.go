package sidecar

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/controllers/modify"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/tasks"
)

// Run runs the companions of a driver until ctx ends; then it returns nil, after all calls have ended. It waits
// until the driver is ready, and then runs those companions that its capabilities allow:
//
//	provisioner           CREATE_DELETE_VOLUME
//	attacher              PUBLISH_UNPUBLISH_VOLUME, or Config.MarkAttached
//	expander              EXPAND_VOLUME of the controller or of the node
//	modifier              MODIFY_VOLUME
//	storage capacities    GET_CAPACITY, and Config.Capacity
//	registration          Config.Registration
//
// With Config.Leader, all of them but the registration run while this process leads; before that, Run calls neither the
// driver nor the API server for them. Each term begins with an empty memory, like a later Run, and continues the work of
// the earlier one. Without a Leader, two runs at the same time for one driver call it twice.
//
// The error for an invalid configuration names the field. An error of Leader.Lead ends the registration, and is the
// error of Run.
func Run(ctx context.Context, config Config) error {
	if err := config.check(); err != nil {
		return err
	}
	config.setDefaults()
	work := []func(context.Context) error{func(ctx context.Context) error { return lead(ctx, config) }}
	if config.Registration != nil {
		work = append(work, func(ctx context.Context) error {
			registration.Keep(ctx, *config.Registration)
			return nil
		})
	}
	err := tasks.RunAll(ctx, work...)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// lead runs the companions while this process leads.
func lead(ctx context.Context, config Config) error {
	if config.Leader == nil {
		return control(ctx, config)
	}
	return config.Leader.Lead(ctx, func(ctx context.Context) error {
		err := control(ctx, config)
		if ctx.Err() != nil { // the term has ended: the election goes on
			return nil
		}
		return err
	})
}

// control runs the companions that call the driver.
func control(ctx context.Context, config Config) error {
	driver, err := Open(ctx, DriverConfig{
		Endpoint: config.Endpoint, Conn: config.Conn, Timeout: config.Timeout, ExpandTimeout: config.ExpandTimeout, ModifyTimeout: config.ModifyTimeout,
		MaxWaiting: config.maxWaiting(), Metrics: config.Metrics, Logger: config.Logger,
	})
	if err != nil {
		return err
	}
	defer func() { _ = driver.Close() }()
	c := &companions{driver: driver, config: &config, caches: caches{config: &config}}
	if err := c.build(); err != nil {
		return fmt.Errorf("sidecar: %w", err)
	}
	config.Logger.Info("working", "driver", driver.name, "companions", c.names)
	return tasks.RunAll(ctx, append(c.run, c.caches.run...)...)
}

// companions are the parts that work for a driver.
type companions struct {
	driver *Driver
	config *Config
	caches caches
	names  []string
	run    []func(context.Context) error
}

// build adds the companions that the driver's capabilities allow. Without any, nothing runs until ctx ends.
func (c *companions) build() error {
	able, config := c.driver.capabilities, c.config
	for _, companion := range []struct {
		name string
		runs bool
		add  func() error
	}{
		{"provisioner", able.create && !config.WithoutProvisioner, c.addProvisioner},
		{"attacher", (able.publish || config.MarkAttached) && !config.WithoutAttacher, c.addAttacher},
		{"expander", (able.expand || able.nodeExpand) && !config.WithoutExpander, c.addExpander},
		{"modifier", able.modify && !config.WithoutModifier, c.addModifier},
		{"capacity", able.capacity && config.Capacity != nil, c.addCapacity},
	} {
		if !companion.runs {
			continue
		}
		if err := companion.add(); err != nil {
			return err
		}
		c.names = append(c.names, companion.name)
	}
	c.run = append(c.run, func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	return nil
}

func (c *companions) hasTopology() bool {
	return c.driver.capabilities.topology && !c.config.Provision.WithoutTopology
}

func (c *companions) addProvisioner() error {
	config, nodes := c.config, c.driverNodes()
	p, err := NewProvisioner(c.driver, ProvisionerConfig{
		Cluster: config.Cluster, Provision: config.Provision, CSINodes: config.CSINodes, Nodes: config.Nodes,
	})
	if err != nil {
		return err
	}
	controller, err := provision.New(provision.Config{
		Name: c.driver.name, Provisioner: p, Cluster: config.Cluster, VolumeName: config.Provision.volumeName,
		Claims: c.caches.claims(), Volumes: c.caches.volumes(), Classes: c.caches.classes(),
		Calls: config.Workers, Timeout: config.stepTimeout(0), Backoff: config.Backoff, MaxBackoff: config.MaxBackoff,
		UnguardedClaims: config.Provision.UnguardedClaims,
		Events:          config.Events, Metrics: config.Metrics, Logger: config.Logger,
	})
	if err != nil {
		return err
	}
	c.run = append(c.run, func(ctx context.Context) error {
		if nodes != nil {
			if err := nodes.waitForSync(ctx); err != nil {
				return err
			}
		}
		return controller.Run(ctx)
	})
	return nil
}

// driverNodes returns the nodes with the driver, and opens their caches; nil for a driver without topologies.
func (c *companions) driverNodes() *driverNodes {
	if !c.hasTopology() {
		return nil
	}
	return &driverNodes{c.driver.name, c.config.Cluster, c.caches.csiNodes(), c.caches.nodes()}
}

func (c *companions) addAttacher() error {
	config := c.config
	a := attachment.Attacher(&attacher{driver: c.driver, secrets: config.Cluster, defaultFSType: config.Provision.DefaultFSType})
	if c.driver.capabilities.publish {
		var err error
		if a, err = NewAttacher(c.driver, config.Cluster, config.Provision.DefaultFSType); err != nil {
			return err
		}
	}
	controller, err := attachment.New(attachment.Config{
		Cluster: config.Cluster, Attacher: a, NoPublish: !c.driver.capabilities.publish,
		Attachments: c.caches.attachments(), Volumes: c.caches.volumes(), Nodes: c.caches.csiNodes(), ListEvery: config.ListEvery,
		Workers: config.Workers, Timeout: config.stepTimeout(0), Backoff: config.Backoff, MaxBackoff: config.MaxBackoff,
		Events: config.Events, Metrics: config.Metrics, Logger: config.Logger,
	})
	if err != nil {
		return err
	}
	c.run = append(c.run, controller.Run)
	return nil
}

func (c *companions) addExpander() error {
	config := c.config
	e, err := NewExpander(c.driver, config.Cluster, config.Provision.DefaultFSType)
	if err != nil {
		return err
	}
	controller, err := expand.New(expand.Config{
		Cluster: config.Cluster, Expander: e, Claims: c.caches.claims(), Volumes: c.caches.volumes(),
		Workers: config.Workers, Timeout: config.stepTimeout(config.ExpandTimeout), Backoff: config.Backoff, MaxBackoff: config.MaxBackoff,
		Events: config.Events, Metrics: config.Metrics, Logger: config.Logger,
	})
	if err != nil {
		return err
	}
	c.run = append(c.run, controller.Run)
	return nil
}

func (c *companions) addModifier() error {
	config := c.config
	m, err := NewModifier(c.driver, config.Cluster, config.ExtraModifyMetadata)
	if err != nil {
		return err
	}
	controller, err := modify.New(modify.Config{
		Cluster: config.Cluster, Modifier: m, Claims: c.caches.claims(), Volumes: c.caches.volumes(),
		Workers: config.Workers, Timeout: config.stepTimeout(config.ModifyTimeout), Backoff: config.Backoff, MaxBackoff: config.MaxBackoff,
		Events: config.Events, Metrics: config.Metrics, Logger: config.Logger,
	})
	if err != nil {
		return err
	}
	c.run = append(c.run, controller.Run)
	return nil
}

func (c *companions) addCapacity() error {
	objects := newCapacities(c.driver, c.config.Cluster, *c.config.Capacity, c.caches.cacheConfig())
	objects.classes, objects.nodes = c.caches.classes(), c.driverNodes()
	objects.failed = func(err error) { c.config.Logger.Warn("a storage capacity was not updated", "err", err) }
	c.run = append(c.run, objects.run)
	return nil
}
