package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// work runs the provisioner on an API server until ctx ends.
func work(ctx context.Context, o options, log io.Writer) error {
	config, err := clientConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server limits its clients by itself
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	recorder := kubeclient.NewRecorder(recording, clientset, v1.EventSource{Component: o.name, Host: o.node})
	p := &program{
		options: o, cluster: kubeclient.New(clientset), events: kubeclient.Events(recorder), mounter: mount.New(mount.Config{}),
		logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}
	return p.run(ctx)
}

// clientConfig returns the configuration of clients by a file, or by the service account of the pod.
func clientConfig(file string) (*rest.Config, error) {
	if file == "" {
		return rest.InClusterConfig()
	}
	return clientcmd.BuildConfigFromFlags("", file)
}

// A program is the provisioner of one node.
type program struct {
	options
	cluster   api.Cluster
	events    func(api.Event)
	mounter   mount.Interface
	logger    *slog.Logger
	collector *metrics.Collector
}

// run provisions until ctx ends, and then returns nil.
func (p *program) run(ctx context.Context) (err error) {
	if p.collector, err = metrics.NewCollector(metrics.Config{}); err != nil {
		return err
	}
	var listener net.Listener
	if p.listen != "" {
		if listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", p.listen); err != nil {
			return fmt.Errorf("-listen: %w", err)
		}
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		defer cancel()
		served <- p.serve(running, listener)
	}()
	err = p.provision(running)
	cancel()
	if err = errors.Join(err, <-served); ctx.Err() != nil {
		return nil
	}
	return err
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
		Config: local.Config{Mounter: p.mounter}, Provisioner: p.name, ClaimRoots: p.claims, Hostname: hostname,
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

// Pauses between attempts to read the Node, and the time limit of a call.
const (
	firstPause = time.Second
	mostPause  = 30 * time.Second
	callTime   = 30 * time.Second
)

// waitForNode returns the Node once it has a hostname. It repeats failed reads until ctx ends.
func (p *program) waitForNode(ctx context.Context) (*v1.Node, error) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		call, cancel := context.WithTimeout(ctx, callTime)
		node, err := p.cluster.Nodes().Get(call, p.node, metav1.GetOptions{})
		cancel()
		if err == nil && node.Labels[v1.LabelHostname] == "" {
			err = errors.New("the label " + v1.LabelHostname + " is missing")
		}
		if err == nil {
			return node, nil
		}
		p.logger.Warn("waiting for the node", "node", p.node, "error", err)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
