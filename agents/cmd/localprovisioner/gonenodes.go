package main

import (
	"context"
	"net"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/local"
)

// runForGoneNodes does the work of -gone-nodes until ctx ends, while this process holds the Lease.
func (p *program) runForGoneNodes(ctx context.Context, listener net.Listener) (err error) {
	if p.collector, err = metrics.NewCollector(metrics.Config{}); err != nil {
		return err
	}
	leadership, err := service.NewLeadership(p.leases, p.namespace, p.name+"-gone-nodes")
	if err != nil {
		return err
	}
	return service.Service{Work: p.replaceGoneNodes, Leadership: leadership, Collector: p.collector}.Run(ctx, listener)
}

// replaceGoneNodes runs the controller for the nodes that do not exist any more until ctx ends.
func (p *program) replaceGoneNodes(ctx context.Context) error {
	nodes := api.NewCache(p.cluster.Nodes(), api.CacheConfig{Consistent: true, Logger: p.logger})
	controller, err := provision.New(provision.ForGoneNodes(provision.Config{
		Name: p.name, Cluster: p.cluster, Events: p.events, Metrics: p.collector, Logger: p.logger,
	}, nodes, local.ProvisionedFor))
	if err != nil {
		return err
	}
	p.logger.Info("looking for nodes that are gone", "provisioner", p.name)
	return cli.RunAll(ctx, nodes.Run, func(ctx context.Context) error {
		if nodes.WaitForSync(ctx) != nil {
			return nil // ctx has ended
		}
		return controller.Run(ctx)
	})
}
