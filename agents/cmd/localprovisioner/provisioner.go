package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// work runs the provisioner on an API server until ctx ends.
func work(ctx context.Context, o options, log io.Writer) error {
	config, err := service.ClientConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	p, err := connect(recording, config, o)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	p.mounter = mount.New(mount.Config{})
	p.logger = slog.New(slog.NewTextHandler(log, nil))
	return p.run(ctx)
}

// connect returns a program without a mounter and a logger. Events are written until ctx ends.
func connect(ctx context.Context, config *rest.Config, o options) (*program, error) {
	clientset, err := service.Connect(config)
	if err != nil {
		return nil, err
	}
	source := v1.EventSource{Component: o.name, Host: o.node}
	if o.goneNodes {
		source.Host = ""
	}
	recorder := kubeclient.NewRecorder(ctx, clientset, source)
	return &program{options: o, cluster: kubeclient.New(clientset), leases: clientset.CoordinationV1(), events: kubeclient.Events(recorder)}, nil
}

// A program is the provisioner of one node, or works for the nodes that are gone.
type program struct {
	options
	cluster   api.Cluster
	leases    coordinationv1.LeasesGetter // of -gone-nodes
	events    func(api.Event)
	mounter   mount.Interface
	logger    *slog.Logger
	collector *metrics.Collector
}

// run works until ctx ends, and then returns nil.
func (p *program) run(ctx context.Context) error {
	listener, err := service.Listen(ctx, p.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	if p.goneNodes {
		return p.runForGoneNodes(ctx, listener)
	}
	return p.runWith(ctx, listener)
}

// runWith provisions, and serves metrics and health unless the listener is nil.
func (p *program) runWith(ctx context.Context, listener net.Listener) (err error) {
	if p.collector, err = metrics.NewCollector(metrics.Config{}); err != nil {
		return err
	}
	return cli.RunAll(ctx, p.provision, func(ctx context.Context) error {
		return service.Serve(ctx, listener, p.collector, service.Checks{"/healthz": p.health})
	})
}

// provision waits for the Node and runs the controller until ctx ends.
func (p *program) provision(ctx context.Context) error {
	node, err := p.waitForNode(ctx)
	if err != nil {
		return err
	}
	controller, err := p.controller(ctx, node)
	if err != nil {
		return err
	}
	p.logger.Info("provisioning", "node", p.node, "claims", p.claims.String())
	return controller.Run(ctx)
}

// controller returns the controller for the claims and the volumes of one node.
func (p *program) controller(ctx context.Context, node *v1.Node) (*provision.Controller, error) {
	host, err := volume.NewHost(ctx, p.root, volume.WithNodeName(types.NodeName(node.Name)))
	if err != nil {
		return nil, err
	}
	hostname := node.Labels[v1.LabelHostname]
	plugin := local.NewProvisioning(local.ProvisioningConfig{
		Config: local.Config{Mounter: p.mounter}, Provisioner: p.name, ClaimRoots: p.claims, FormerClaimRoots: p.former, Hostname: hostname,
	})
	if err := plugin.Init(ctx, host); err != nil {
		return nil, err
	}
	provisioner, err := provision.FromPlugin(plugin)
	if err != nil {
		return nil, err
	}
	return provision.New(provision.Config{
		Name: p.name, Provisioner: provisioner, Cluster: p.cluster,
		Events: p.events, Metrics: p.collector, Logger: p.logger,
		// The other nodes have provisioners of their own.
		Qualifier: func(_ context.Context, claim *v1.PersistentVolumeClaim) bool {
			return claim.Annotations[provision.SelectedNodeAnnotation] == node.Name
		},
		DeletionGuard: func(_ context.Context, pv *v1.PersistentVolume) bool {
			of, ok := local.ProvisionedFor(pv)
			return ok && of == hostname
		},
	})
}

// waitForNode returns the Node once it has a hostname. It repeats failed reads until ctx ends.
func (p *program) waitForNode(ctx context.Context) (*v1.Node, error) {
	return service.Retry(ctx, p.readNode, func(err error) bool {
		p.logger.Warn("waiting for the node", "node", p.node, "error", err)
		return true
	})
}

func (p *program) readNode(ctx context.Context) (*v1.Node, error) {
	node, err := p.cluster.Nodes().Get(ctx, p.node, metav1.GetOptions{})
	if err == nil && node.Labels[v1.LabelHostname] == "" {
		err = errors.New("the label " + v1.LabelHostname + " is missing")
	}
	return node, err
}
