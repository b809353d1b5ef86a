package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/csi/sidecar"
	"github.com/volumekit/volumekit/internal/tasks"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// A program is a sidecar of one driver.
type program struct {
	options
	collector *metrics.Collector
	logger    *slog.Logger
	prober    *sidecar.Prober
	// leadership is set once the name of the driver is known.
	leadership atomic.Pointer[service.Leadership]
}

// work runs the program until ctx ends.
func work(ctx context.Context, o options, log io.Writer) error {
	listener, err := service.Listen(ctx, o.listen)
	if err != nil {
		return fmt.Errorf("--http-endpoint: %w", err)
	}
	return workWith(ctx, o, listener, log)
}

// workWith runs the program, and serves metrics and health unless the listener is nil. It closes the listener.
func workWith(ctx context.Context, o options, listener net.Listener, log io.Writer) error {
	p, err := newProgram(o, log)
	if err != nil {
		return errors.Join(err, closeListener(listener))
	}
	return errors.Join(p.run(ctx, listener), p.prober.Close())
}

func closeListener(listener net.Listener) error {
	if listener == nil {
		return nil
	}
	return listener.Close()
}

func newProgram(o options, log io.Writer) (p *program, err error) {
	p = &program{options: o, logger: newLogger(o.logFormat, log)}
	for _, w := range o.warnings {
		p.logger.Warn("the flag has no effect", "flag", w.flag, "reason", w.reason)
	}
	if p.collector, err = metrics.NewCollector(metrics.Config{}); err != nil {
		return nil, err
	}
	p.prober, err = sidecar.NewProber(sidecar.DriverConfig{Endpoint: o.address, Timeout: cmp.Or(o.probeTimeout, o.timeout), Metrics: p.collector})
	return p, err
}

// newLogger returns a logger with a format: json or text.
func newLogger(format string, log io.Writer) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(log, nil))
	}
	return slog.New(slog.NewTextHandler(log, nil))
}

// run runs the parts of the program until ctx ends. The registration, and the health of the driver, depend neither on
// leader election nor on an API server.
func (p *program) run(ctx context.Context, listener net.Listener) error {
	all := []func(context.Context) error{func(ctx context.Context) error {
		return service.Serve(ctx, listener, p.collector, service.Checks{"/healthz": p.prober.Probe, "/healthz/leader-election": p.checkLease})
	}}
	if !p.nodeOnly {
		clientset, err := p.connect()
		if err != nil {
			return errors.Join(fmt.Errorf("--kubeconfig, --master: %w", err), closeListener(listener))
		}
		all = append(all, func(ctx context.Context) error { return p.runCompanions(ctx, clientset) })
	}
	if p.registrationPath != "" {
		all = append(all, p.register)
	}
	return tasks.RunAll(ctx, all...)
}

// connect returns a client of the API server. It makes no call.
func (p *program) connect() (*kubernetes.Clientset, error) {
	if p.master == "" {
		config, err := service.ClientConfig(p.kubeconfig)
		if err != nil {
			return nil, err
		}
		return service.Connect(config)
	}
	config, err := clientcmd.BuildConfigFromFlags(p.master, p.kubeconfig)
	if err != nil {
		return nil, err
	}
	return service.Connect(config)
}

// checkLease returns an error if this process holds the Lease, and could not renew it in time.
func (p *program) checkLease(context.Context) error {
	if l := p.leadership.Load(); l != nil {
		return l.Check()
	}
	return nil
}

// register registers the driver until ctx ends.
func (p *program) register(ctx context.Context) error {
	registration.Keep(ctx, registration.ServerConfig{
		Dir: p.registrationDir, Endpoint: p.registrationPath, Address: p.address, Logger: p.logger,
	})
	return nil
}

// runCompanions runs the companions, with leader election while this process holds the Lease of the driver.
func (p *program) runCompanions(ctx context.Context, clientset *kubernetes.Clientset) error {
	name, err := p.driverName(ctx)
	if err != nil {
		return err
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	recorder := kubeclient.NewRecorder(recording, clientset, v1.EventSource{Component: name})
	config, err := p.config(ctx, clientset, kubeclient.Events(recorder))
	if err != nil {
		return err
	}
	if p.election {
		leadership, err := service.NewLeadership(labelledLeases{clientset.CoordinationV1(), p.leaseLabels}, p.namespace, "volumekit-sidecar-"+name)
		if err != nil {
			return err
		}
		if err := leadership.SetPeriods(p.periods); err != nil {
			return err
		}
		p.leadership.Store(leadership)
		config.Leader = leadership
	}
	return sidecar.Run(ctx, config)
}

// driverName returns the name of the driver. It waits until the driver is ready.
func (p *program) driverName(ctx context.Context) (string, error) {
	driver, err := sidecar.Open(ctx, sidecar.DriverConfig{Endpoint: p.address, Timeout: p.timeout, Metrics: p.collector, Logger: p.logger})
	if err != nil {
		return "", err
	}
	return driver.Name(), driver.Close()
}

// config returns the configuration of the companions, without a leader.
func (p *program) config(ctx context.Context, clientset kubernetes.Interface, announce func(api.Event)) (sidecar.Config, error) {
	config := sidecar.Config{
		Endpoint: p.address, Cluster: kubeclient.New(clientset), Provision: p.provision, MarkAttached: p.markAttached, ExtraModifyMetadata: p.extraModify,
		Workers: p.workers, Timeout: p.timeout, ExpandTimeout: p.resizeTimeout, ModifyTimeout: p.modifyTimeout, ListEvery: p.listEvery,
		Backoff: p.firstBackoff, MaxBackoff: p.mostPause, Resync: p.resync,
		Events: announce, Metrics: p.collector, Logger: p.logger,
	}
	if !p.capacity {
		return config, nil
	}
	owner, err := p.owner(ctx, clientset)
	config.Capacity = &p.objects
	config.Capacity.Owner = owner
	return config, err
}
