package bind

import (
	"context"
	"slices"

	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A pluginController provisions and deletes by a plugin.
type pluginController struct {
	*provision.Controller
	name       string
	provisions bool // false: the plugin deletes alone
}

// openPlugins creates a controller for each plugin that deletes. These share the caches.
func (c *Controller) openPlugins() error {
	if c.config.Plugins == nil {
		return nil
	}
	for _, plugin := range c.config.Plugins.Plugins() {
		provisioner, err := provision.FromPlugin(plugin)
		provisions := err == nil
		if !provisions {
			if provisioner, err = provision.FromDeletablePlugin(plugin); err != nil {
				continue // the plugin recycles, or only mounts
			}
		}
		name := plugin.GetPluginName()
		controller, err := provision.New(provision.Config{
			Name: name, Provisioner: provisioner, Cluster: c.config.Cluster,
			Claims: c.config.Claims, Volumes: c.config.Volumes, Classes: c.config.Classes,
			StaticVolumes:   func(pv *v1.PersistentVolume) bool { return c.pluginOf(pv) == name },
			VolumeFinalizer: PluginFinalizer,
			Qualifier:       func(context.Context, *v1.PersistentVolumeClaim) bool { return provisions },
			Calls:           c.config.Calls, Timeout: c.config.Timeout, Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff,
			Events: c.config.Events, Metrics: operationCounter{c.config.Metrics, name}, Logger: c.config.Logger,
		})
		if err != nil {
			return err
		}
		c.plugins = append(c.plugins, pluginController{controller, name, provisions})
	}
	return nil
}

// provisions reports whether a plugin of this program has the name of a provisioner.
func (c *Controller) provisions(provisioner string) bool {
	for _, plugin := range c.plugins {
		if plugin.name == provisioner {
			return plugin.provisions
		}
	}
	return false
}

// deletes reports whether a plugin of this program with a name deletes storage.
func (c *Controller) deletes(plugin string) bool {
	return slices.ContainsFunc(c.plugins, func(p pluginController) bool { return p.name == plugin })
}

// pluginOf returns the name of the plugin that supports a volume, or "".
func (c *Controller) pluginOf(pv *v1.PersistentVolume) string {
	if c.config.Plugins == nil {
		return ""
	}
	plugin, err := c.config.Plugins.FindPluginBySpec(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return ""
	}
	return plugin.GetPluginName()
}

// deleterOf returns the program that deletes the storage of a volume.
func (c *Controller) deleterOf(pv *v1.PersistentVolume) deleter {
	name := pv.Annotations[provision.ProvisionedByAnnotation]
	switch {
	case c.config.Plugins == nil:
		return deletedElsewhere
	case name != "" && c.deletes(name):
		return deletedHere
	case name != "" && !isOfKubernetes(name):
		return deletedElsewhere
	case name != "":
		return deletedNowhere
	case has(pv, provision.MigratedToAnnotation), pv.Spec.CSI != nil:
		return deletedElsewhere
	case c.deletes(c.pluginOf(pv)):
		return deletedHere
	}
	return deletedNowhere
}

// recyclerOf returns the plugin that recycles a volume, or nil.
func (c *Controller) recyclerOf(pv *v1.PersistentVolume) volume.Recycler {
	if c.config.Plugins == nil {
		return nil
	}
	plugin, ok, err := volume.FindBySpec[volume.RecyclableVolumePlugin](c.config.Plugins, volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil || !ok {
		return nil
	}
	return plugin
}
