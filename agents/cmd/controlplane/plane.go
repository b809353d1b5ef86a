package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/protect"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// parts are a program's connections to the API server.
type parts struct {
	cluster  api.Cluster
	leases   coordinationv1.LeasesGetter // nil: without leader election
	announce func(api.Event)
}

// work runs the control plane on an API server until ctx ends.
func work(ctx context.Context, o options, log io.Writer) error {
	config, err := service.ClientConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c, err := connect(recording, config)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	p, err := newPlane(o, c, log)
	if err != nil {
		return err
	}
	return p.run(ctx)
}

// connect returns the connections to the API server. Events are written until ctx ends.
func connect(ctx context.Context, config *rest.Config) (p parts, err error) {
	clientset, err := service.Connect(config)
	if err != nil {
		return p, err
	}
	recorder := kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: "volumekit-controlplane"})
	return parts{cluster: kubeclient.New(clientset), leases: clientset.CoordinationV1(), announce: kubeclient.Events(recorder)}, nil
}

// A plane runs the selected controllers.
type plane struct {
	options
	parts
	collector  *metrics.Collector
	logger     *slog.Logger
	leadership *service.Leadership // nil: without leader election
	recyclers  recyclers           // of the binder
	plugins    *volume.VolumePluginMgr
}

func newPlane(o options, c parts, log io.Writer) (p *plane, err error) {
	p = &plane{options: o, parts: c, logger: slog.New(slog.NewTextHandler(log, nil))}
	if p.collector, err = metrics.NewCollector(metrics.Config{}); err != nil {
		return nil, err
	}
	if p.recyclers, err = p.newRecyclers(); err != nil {
		return nil, err
	}
	if p.plugins, err = p.recyclers.register(context.Background()); err != nil {
		return nil, err
	}
	if o.election {
		p.leadership, err = service.NewLeadership(c.leases, o.namespace, o.lease)
	}
	return p, err
}

// run works until ctx ends, and then returns nil.
func (p *plane) run(ctx context.Context) error {
	listener, err := service.Listen(ctx, p.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	return p.runWith(ctx, listener)
}

// runWith runs the controllers, and serves metrics and health unless the listener is nil.
func (p *plane) runWith(ctx context.Context, listener net.Listener) error {
	return service.Service{Work: p.control, Leadership: p.leadership, Collector: p.collector}.Run(ctx, listener)
}

// control runs the controllers on one set of caches until ctx ends, and then returns nil.
func (p *plane) control(ctx context.Context) error {
	c := &caches{cluster: p.cluster, config: api.CacheConfig{Consistent: true, Logger: p.logger}}
	var tasks []func(context.Context) error
	for _, build := range []func(*caches) (func(context.Context) error, error){p.protection, p.binding, p.expansion, p.attachment} {
		run, err := build(c)
		if err != nil {
			return err
		}
		if run != nil {
			tasks = append(tasks, run)
		}
	}
	p.logger.Info("working", "controllers", p.controllers)
	return cli.RunAll(ctx, append(tasks, c.runs...)...)
}

// protection returns the Run of the controllers of package protect, nil if none is selected.
func (p *plane) protection(c *caches) (run func(context.Context) error, err error) {
	config := protect.Config{
		Cluster: p.cluster, ReportUnused: p.reportUnused,
		WithoutClaims:    !p.controllers.has(claimProtection),
		WithoutVolumes:   !p.controllers.has(volumeProtection),
		WithoutEphemeral: !p.controllers.has(ephemeralVolumes),
		Events:           p.announce, Metrics: p.collector, Logger: p.logger,
	}
	if config.WithoutClaims && config.WithoutVolumes && config.WithoutEphemeral {
		return nil, nil
	}
	config.Claims = c.ofClaims()
	if !config.WithoutVolumes {
		config.Volumes = c.ofVolumes()
	}
	if !config.WithoutClaims || !config.WithoutEphemeral {
		config.Pods = c.ofPods()
	}
	controller, err := protect.New(config)
	if err != nil {
		return nil, err
	}
	return controller.Run, nil
}

// binding returns the Run of the controller of package bind, nil if it is not selected. Other programs
// provision and delete; pods recycle, and at the end the Run waits for their removal.
func (p *plane) binding(c *caches) (run func(context.Context) error, err error) {
	if !p.controllers.has(binder) {
		return nil, nil
	}
	controller, err := bind.New(bind.Config{
		Cluster: p.cluster, Claims: c.ofClaims(), Volumes: c.ofVolumes(), Classes: c.ofClasses(), Pods: c.ofPods(), Plugins: p.plugins,
		Events: p.announce, Metrics: p.collector, Logger: p.logger,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer p.removePods()
		defer p.collector.Export(controller.Gauges)()
		return controller.Run(ctx)
	}, nil
}

// expansion returns the Run of the controller of package expand, nil if it is not selected. No plugin of the program
// expands volumes: the controller reports the claims that other programs expand.
func (p *plane) expansion(c *caches) (run func(context.Context) error, err error) {
	if !p.controllers.has(expander) {
		return nil, nil
	}
	controller, err := expand.New(expand.Config{
		Cluster: p.cluster, Expander: expand.FromPlugins(p.plugins), ReportExternal: true,
		Claims: c.ofClaims(), Volumes: c.ofVolumes(),
		Events: p.announce, Metrics: p.collector, Logger: p.logger,
	})
	if err != nil {
		return nil, err
	}
	return controller.Run, nil
}

// attachment returns the Run of the controller of package attach, nil if it is not selected. It has no
// plugin: it attaches CSI volumes.
func (p *plane) attachment(c *caches) (run func(context.Context) error, err error) {
	if !p.controllers.has(attacher) {
		return nil, nil
	}
	controller, err := attach.New(attach.Config{
		Cluster: p.cluster, Caches: c.ofAttacher(), Events: p.announce, Metrics: p.collector, Logger: p.logger,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		defer p.collector.Export(controller.Gauges)()
		return controller.Run(ctx)
	}, nil
}
