package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/tasks"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// places are the paths in the directory of a test:
//
//	disks                  the storage of disks
//	claims                 the storage of the local driver
//	controller             the directory of the driver of disks whose controller service the sidecar calls
//	NODE/root              the root of the volumes of a node
type places struct{ dir string }

func (p places) disks() string               { return filepath.Join(p.dir, "disks") }
func (p places) claims() string              { return filepath.Join(p.dir, "claims") }
func (p places) controller() string          { return filepath.Join(p.dir, "controller") }
func (p places) controllerSocket() string    { return filepath.Join(p.controller(), "csi.sock") }
func (p places) root(node string) string     { return filepath.Join(p.dir, node, "root") }
func (p places) registry(node string) string { return filepath.Join(p.root(node), "plugins_registry") }
func (p places) localSocket(node string) string {
	return filepath.Join(p.root(node), "plugins", localDriver, "csi.sock")
}

const (
	diskDriver  = "disk.csi.volumekit.io"
	localDriver = "local.csi.volumekit.io"
)

func programLogger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// runAgent is a program: the agent of a node, which has the part of a kubelet in volumes. The
// arguments are the directory of the test, the name of the node, and the kubeconfig.
func runAgent(p mounttest.Process) {
	at, name, ctx := places{p.Args[0]}, p.Args[1], context.Background()
	config, err := service.ClientConfig(p.Args[2])
	require.NoError(p, err)
	clientset, err := service.Connect(config)
	require.NoError(p, err)
	a := agent{root: at.root(name), registry: at.registry(name), node: types.NodeName(name), cluster: kubeclient.New(clientset)}
	require.NoError(p, a.run(ctx))
}

// An agent sets up the volumes of the pods of a node.
type agent struct {
	root, registry string
	node           types.NodeName
	cluster        api.Cluster
}

// run works until ctx ends.
func (a agent) run(ctx context.Context) error {
	logger := programLogger()
	source, err := node.NewSource(node.Config{Cluster: a.cluster, Node: a.node, Logger: logger})
	if err != nil {
		return err
	}
	status, err := node.NewClaimStatus(node.ClaimStatusConfig{Source: source, Logger: logger})
	if err != nil {
		return err
	}
	attacher, err := node.NewAttacher(node.AttacherConfig{Source: source, Logger: logger})
	if err != nil {
		return err
	}
	attachments, err := node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: a.cluster, Node: a.node, Logger: logger})
	if err != nil {
		return err
	}
	objects, err := node.NewCSIDrivers(node.CSIDriversConfig{Cluster: a.cluster, Logger: logger})
	if err != nil {
		return err
	}
	entries, err := node.NewCSINode(node.CSINodeConfig{Cluster: a.cluster, Node: a.node})
	if err != nil {
		return err
	}
	drivers, err := registration.New(registration.Config{Dir: a.registry, Node: entries, Logger: logger})
	if err != nil {
		return err
	}
	m, err := a.newManager(ctx, source, status, attacher, csi.Config{
		Mounter: mount.New(mount.Config{}), Drivers: drivers, Objects: objects, Attachments: attachments, Secrets: source, Tokens: source,
	})
	if err != nil {
		return err
	}
	report := func(ctx context.Context) error { return attacher.Run(ctx, m) }
	label := func(ctx context.Context) error { return source.FollowLabels(ctx, m.SetNodeLabels) }
	return tasks.RunAll(ctx, source.Run, label, status.Run, attachments.Run, objects.Run, drivers.Run, report, m.Run)
}

// newManager returns the manager of the node's volumes.
func (a agent) newManager(ctx context.Context, source *node.Source, status *node.ClaimStatus, attacher *node.Attacher, config csi.Config) (*manager.Manager, error) {
	host, err := volume.NewHost(ctx, a.root, volume.WithNodeName(a.node))
	if err != nil {
		return nil, err
	}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, csi.New(config))
	if err != nil {
		return nil, err
	}
	logger := programLogger()
	return manager.New(manager.Config{
		Plugins: plugins, Mounter: config.Mounter, Pods: source, Claims: source,
		Attacher: attacher, ReportFirst: true, ControllerExpands: true, Expansions: status.Report, Logger: logger,
		Events: func(e manager.Event) { logger.Info(e.Message, "reason", e.Reason, "volume", e.Unique, "error", e.Err) },
	})
}
