package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/agents/internal/screen"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/rootlock"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// work runs an agent on an API server until ctx ends.
func work(ctx context.Context, o options, stdout io.Writer) error {
	config, err := service.ClientConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	p, err := connect(running, config, o.node)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	p.mounter = mount.New(mount.Config{})
	a, err := newAgent(ctx, o, stdout, p)
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // ended while it waited for the API server
	}
	if err != nil {
		return err
	}
	return errors.Join(a.run(ctx), a.lock.Close())
}

// parts are an agent's connections to the API server and to the kernel.
type parts struct {
	cluster  api.Cluster
	leases   leases
	record   func(manager.Event) // writes an event of a volume to the API server
	announce func(api.Event)     // writes an event of a claim to the API server
	mounter  mount.Interface
}

// connect returns the connections to the API server. Events are written until ctx ends.
func connect(ctx context.Context, config *rest.Config, nodeName string) (p parts, err error) {
	clientset, err := service.Connect(config)
	if err != nil {
		return p, err
	}
	recorder := kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: "volumekit", Host: nodeName})
	return parts{
		cluster:  kubeclient.New(clientset),
		leases:   clientset.CoordinationV1().Leases(v1.NamespaceNodeLease),
		record:   kubeclient.ManagerEvents(recorder, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName}}),
		announce: kubeclient.Events(recorder),
	}, nil
}

// An agent keeps the volumes of the pods of a node.
type agent struct {
	options
	parts
	out       io.Writer
	lock      *rootlock.Lock
	screen    *screen.Screen
	source    *node.Source
	claims    *node.ClaimStatus
	plugins   *volume.VolumePluginMgr
	collector *metrics.Collector
	manager   *manager.Manager
	heartbeat *heartbeat // nil: without -register
	drivers   *drivers   // nil: without -csi
}

// newAgent locks the root, reads or creates the Node, and builds the manager.
func newAgent(ctx context.Context, o options, stdout io.Writer, p parts) (*agent, error) {
	if err := os.MkdirAll(o.root, 0o755); err != nil {
		return nil, fmt.Errorf("-root: %w", err)
	}
	l, err := rootlock.New(o.root)
	if err != nil {
		return nil, err
	}
	a := &agent{options: o, parts: p, out: stdout, lock: l, screen: screen.New(stdout)}
	this, err := a.waitForNode(ctx)
	if err == nil {
		err = a.build(ctx, this)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return a, nil
}

// build creates the source, the plugins and the manager.
func (a *agent) build(ctx context.Context, this *v1.Node) error {
	host, err := volume.NewHost(ctx, a.root, volume.WithNodeName(types.NodeName(this.Name)))
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(sayer(a.screen.Say), &slog.HandlerOptions{Level: slog.LevelWarn}))
	a.source, err = node.NewSource(node.Config{Cluster: a.cluster, Node: host.NodeName(), Logger: logger})
	if err != nil {
		return err
	}
	a.claims, err = node.NewClaimStatus(node.ClaimStatusConfig{Source: a.source, Events: a.announce, Logger: logger})
	if err != nil {
		return err
	}
	if a.collector, err = metrics.NewCollector(metrics.Config{}); err != nil {
		return err
	}
	files := content.Config{Mounter: a.mounter, ConfigMaps: a.source, Secrets: a.source, Tokens: a.source,
		TrustBundles: a.source, Node: a.source}
	plugins := []volume.VolumePlugin{
		local.New(local.Config{Mounter: a.mounter, Roots: a.disks}),
		hostpath.New(hostpath.Config{Mounter: a.mounter, Roots: a.hostPaths}),
		nfs.New(nfs.Config{Mounter: a.mounter}),
		emptydir.New(emptydir.Config{Mounter: a.mounter}),
		content.NewConfigMap(files), content.NewSecret(files),
		content.NewDownwardAPI(files), content.NewProjected(files),
	}
	config := manager.Config{
		Mounter: a.mounter, Pods: a.source, Claims: a.source,
		NodeLabels: this.Labels, Events: a.event, Metrics: a.collector,
		ControllerExpands: true, Expansions: a.claims.Report,
	}
	if a.csi {
		if a.drivers, err = a.newDrivers(logger); err != nil {
			return err
		}
		plugins = append(plugins, a.drivers.newPlugin(a.mounter, a.source))
		config.Attacher, config.ReportFirst = a.drivers.attacher, true
	}
	if a.plugins, err = volume.NewVolumePluginMgr(ctx, host, plugins...); err != nil {
		return err
	}
	config.Plugins = a.plugins
	a.manager, err = manager.New(config)
	return err
}

// A sayer shows the lines of a log.
type sayer func(line string)

// Write implements io.Writer.
func (s sayer) Write(line []byte) (int, error) {
	s(string(line))
	return len(line), nil
}

// event shows an event, and writes it to the API server unless it reports normal operation, whose
// events would be most of the agent's calls, or the end of the agent.
func (a *agent) event(e manager.Event) {
	a.screen.Event(e)
	switch e.Reason {
	case manager.SuccessfulMountVolume, manager.SuccessfulMapVolume, manager.SuccessfulUnMountVolume:
		return
	}
	if !errors.Is(e.Err, context.Canceled) {
		a.record(e)
	}
}

// run keeps the volumes until ctx ends, and then returns nil. The volumes stay.
func (a *agent) run(ctx context.Context) error {
	debug.SetGCPercent(25) // a node's memory is for its pods
	listener, err := service.Listen(ctx, a.metrics)
	if err != nil {
		return fmt.Errorf("-metrics: %w", err)
	}
	tasks := []func(context.Context) error{a.source.Run, a.claims.Run, a.manager.Run,
		func(ctx context.Context) error { return service.Serve(ctx, listener, a.collector, nil) },
		func(ctx context.Context) error { return a.source.FollowLabels(ctx, a.manager.SetNodeLabels) },
	}
	if a.drivers != nil {
		tasks = append(tasks, a.drivers.tasks(a.manager)...)
	}
	if a.heartbeat != nil {
		tasks = append(tasks, a.heartbeat.run)
	}
	defer a.source.SubscribeContent(a.manager.MarkRemountRequired)()
	tasks = append(tasks, func(ctx context.Context) error {
		a.screen.Begin(fmt.Sprintf("Keeping the volumes of the pods of node %s, below %s. Process %d.", a.node, a.root, os.Getpid()))
		return a.screen.Follow(ctx, a.manager, a.source, func() bool {
			debug.FreeOSMemory() // there may be nothing to do for days
			return false
		})
	})
	return cli.RunAll(a.screen.WithProgress(ctx), tasks...)
}
