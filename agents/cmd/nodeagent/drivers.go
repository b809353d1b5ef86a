package main

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// drivers are the agent's parts for the volumes of CSI drivers.
type drivers struct {
	attacher    *node.Attacher          // waits for a controller to attach volumes
	attachments *node.VolumeAttachments // with the publish contexts of drivers
	objects     *node.CSIDrivers
	watcher     *registration.Watcher // registers the drivers
}

// newDrivers returns the parts for drivers whose sockets are in the directory plugins_registry of the root.
func (a *agent) newDrivers(logger *slog.Logger) (d *drivers, err error) {
	d, name := &drivers{}, types.NodeName(a.node)
	if d.attacher, err = node.NewAttacher(node.AttacherConfig{Source: a.source, Logger: logger}); err != nil {
		return nil, err
	}
	if d.attachments, err = node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: a.cluster, Node: name, Logger: logger}); err != nil {
		return nil, err
	}
	if d.objects, err = node.NewCSIDrivers(node.CSIDriversConfig{Cluster: a.cluster, Logger: logger}); err != nil {
		return nil, err
	}
	entries, err := node.NewCSINode(node.CSINodeConfig{Cluster: a.cluster, Node: name})
	if err != nil {
		return nil, err
	}
	d.watcher, err = registration.New(registration.Config{Dir: filepath.Join(a.root, "plugins_registry"), Node: entries, Logger: logger})
	return d, err
}

// newPlugin returns the plugin of the drivers' volumes. Source has the objects that the volumes name.
func (d *drivers) newPlugin(mounter mount.Interface, source *node.Source) volume.VolumePlugin {
	return csi.New(csi.Config{
		Mounter: mounter, Drivers: d.watcher, Objects: d.objects, Attachments: d.attachments, Secrets: source, Tokens: source,
	})
}

// tasks are the work beside that of the manager.
func (d *drivers) tasks(m *manager.Manager) []func(context.Context) error {
	return []func(context.Context) error{
		d.attachments.Run, d.objects.Run, d.watcher.Run,
		func(ctx context.Context) error { return d.attacher.Run(ctx, m) },
	}
}
