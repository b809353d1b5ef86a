package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/internal/rootlock"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
)

// usualDir is the mount point of the export in manifests of nfs-subdir-external-provisioner.
const usualDir = "/persistentvolumes"

// parts are a program's connections to the API server and to the kernel.
type parts struct {
	cluster  api.Cluster
	leases   coordinationv1.LeasesGetter
	announce func(api.Event)
	mounter  mount.Interface
	usualDir string
}

// work runs a program on an API server until ctx ends.
func work(ctx context.Context, o options, log io.Writer) error {
	config, err := service.ClientConfig(o.kubeconfig)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	if err := setVerbosity(o.verbosity); err != nil {
		return fmt.Errorf("-v: %w", err)
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	c, err := connect(recording, config, o.provisioner)
	if err != nil {
		return fmt.Errorf("-kubeconfig: %w", err)
	}
	mounter := mount.New(mount.Config{})
	c.mounter, c.usualDir = mounter, usualDir
	p, err := newProgram(ctx, o, c, log)
	if err != nil {
		return errors.Join(err, mounter.Close())
	}
	return errors.Join(p.runLocked(ctx), mounter.Close())
}

// levelOf returns the level of the log for a verbosity: 4 is that of debugging.
func levelOf(verbosity uint) slog.Level { return -slog.Level(min(verbosity, 4)) }

// setVerbosity sets the verbosity of the client of the API server.
func setVerbosity(n uint) error {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	return flags.Set("v", fmt.Sprint(n))
}

// connect returns the connections to the API server. Events are written until ctx ends.
func connect(ctx context.Context, config *rest.Config, provisioner string) (p parts, err error) {
	clientset, err := service.Connect(config)
	if err != nil {
		return p, err
	}
	recorder := kubeclient.NewRecorder(ctx, clientset, v1.EventSource{Component: provisioner})
	return parts{cluster: kubeclient.New(clientset), leases: clientset.CoordinationV1(), announce: kubeclient.Events(recorder)}, nil
}

// A program provisions volumes.
type program struct {
	options
	parts
	lock        *rootlock.Lock
	provisioner provision.Provisioner
	collector   *metrics.Collector
	logger      *slog.Logger
	leadership  *service.Leadership // nil: without leader election
}

// newProgram locks the root, so that no second process unmounts the exports of the first, and
// configures the plugin.
func newProgram(ctx context.Context, o options, p parts, log io.Writer) (*program, error) {
	dir, err := exportDir(ctx, p.mounter, o.dir, p.usualDir)
	if err != nil {
		return nil, fmt.Errorf("-dir: %w", err)
	}
	o.dir = dir
	if err := os.MkdirAll(o.root, 0o755); err != nil {
		return nil, fmt.Errorf("-root: %w", err)
	}
	lock, err := rootlock.New(o.root)
	if err != nil {
		return nil, err
	}
	made := &program{options: o, parts: p, lock: lock, logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: levelOf(o.verbosity)}))}
	if err := made.build(ctx); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return made, nil
}

func (p *program) build(ctx context.Context) error {
	host, err := volume.NewHost(ctx, p.root)
	if err != nil {
		return err
	}
	plugin := nfs.NewProvisioning(nfs.ProvisioningConfig{
		Config:      nfs.Config{Mounter: p.mounter},
		Provisioner: p.options.provisioner, Server: p.server, Path: p.path, Aliases: p.aliases, MountOptions: p.mountWith, Dir: p.dir,
		Class: func(ctx context.Context, name string) (*storagev1.StorageClass, error) {
			return p.cluster.StorageClasses().Get(ctx, name, metav1.GetOptions{})
		},
	})
	if err := plugin.Init(ctx, host); err != nil {
		return err
	}
	if p.provisioner, err = provision.FromPlugin(plugin); err != nil {
		return err
	}
	if p.collector, err = metrics.NewCollector(metrics.Config{}); err != nil {
		return err
	}
	if p.election {
		p.leadership, err = service.NewLeadership(p.leases, p.namespace, p.options.provisioner)
	}
	return err
}

// exportDir returns the directory at which the export is mounted, or "" if the program has to mount
// it. A directory of the user must be a mount of NFS: otherwise volumes would be directories of
// the program's own file system.
func exportDir(ctx context.Context, mounter mount.Interface, dir, usual string) (string, error) {
	if dir != "" {
		mounted, err := isNFS(ctx, mounter, dir)
		if err == nil && !mounted {
			err = fmt.Errorf("%s: not a mount point of NFS", dir)
		}
		return dir, err
	}
	mounted, err := isNFS(ctx, mounter, usual)
	if err != nil || !mounted {
		return "", err
	}
	return usual, nil
}

func isNFS(ctx context.Context, mounter mount.Interface, dir string) (bool, error) {
	table, err := mounter.List(ctx)
	if err != nil {
		return false, err
	}
	at, ok := mount.Table(table).At(dir)
	return ok && (at.FSType == "nfs" || at.FSType == "nfs4"), nil
}

// runLocked runs the program and unlocks the root.
func (p *program) runLocked(ctx context.Context) error {
	return errors.Join(p.run(ctx), p.lock.Close())
}

// run provisions until ctx ends, and then returns nil.
func (p *program) run(ctx context.Context) error {
	listener, err := service.Listen(ctx, p.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	return p.runWith(ctx, listener)
}

// runWith provisions, and serves metrics and health unless the listener is nil.
func (p *program) runWith(ctx context.Context, listener net.Listener) error {
	return service.Service{Work: p.provision, Leadership: p.leadership, Collector: p.collector}.Run(ctx, listener)
}

// provision runs a controller until ctx ends, and then returns nil.
func (p *program) provision(ctx context.Context) error {
	controller, err := provision.New(provision.Config{
		Name: p.options.provisioner, Provisioner: p.provisioner, Cluster: p.cluster, Timeout: p.timeout,
		Events: p.announce, Metrics: p.collector, Logger: p.logger,
	})
	if err != nil {
		return err
	}
	p.logger.Info("provisioning", "provisioner", p.options.provisioner, "server", p.server, "path", p.path, "dir", p.dir)
	return controller.Run(ctx)
}
