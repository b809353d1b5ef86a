package docker

import (
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config configures a driver. Name, Plugin, Host and Mounter are required.
type Config struct {
	// Name of the driver, by which its directories are named: "nfs". At most 63 letters, digits and "_.-". It must
	// never change while volumes exist.
	Name string
	// Plugin is the volume plugin. It must be a volume.PathVolumePlugin. Serve initialises it. If it is a
	// volume.ProvisionableVolumePlugin it must be a volume.DeletableVolumePlugin, too: the driver creates volumes then.
	Plugin volume.VolumePlugin
	// Host has the directories of the plugin, of the mounts and of the records. Its root must outlive the process. The
	// daemon finds the mounts at the same paths, or, for a managed plugin, the root is below its PropagatedMount.
	Host volume.VolumeHost
	// Mounter reads the mount table: the plugin's own mounter.
	Mounter mount.Interface

	// Size is the size in bytes of a new volume without the option "size", which a plugin may enforce. 0: 1 GiB.
	Size int64
	// Parameters are parameters of the class of all new volumes. Options of a volume replace them.
	Parameters map[string]string
	// Share returns the source of a volume with the option "share", such as NFSShare. Such a volume shows storage that
	// exists: nothing is created or deleted. Nil: the driver has no shares.
	Share func(share string) (v1.PersistentVolumeSource, error)
	// Scope of the names of volumes. Empty: ScopeLocal.
	Scope Scope

	// Logger receives failed calls. Nil: silent.
	Logger *slog.Logger
	// GracePeriod is the time for calls in flight to end after the context of Serve. 0: 10 seconds.
	GracePeriod time.Duration
}

// A Scope says on which machines a name denotes the same volume.
type Scope string

// The scopes of the protocol.
const (
	// ScopeLocal: each machine has volumes of its own, also beside another one with its name: their storage is named by the
	// node and by a random name that the driver keeps beside its records.
	ScopeLocal Scope = "local"
	// ScopeGlobal: a name denotes the same storage on all machines. The plugin finds it by the name, or the volume
	// is a share. Each machine has records of its own: Remove on one of them deletes the storage, and does not see users
	// on others.
	ScopeGlobal Scope = "global"
)

const (
	longestDriver = 63
	longestName   = 128
)

// nameOf matches names of drivers and of volumes, as the daemon does.
var nameOf = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

// check returns a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("config")
	switch {
	case len(c.Name) > longestDriver || !nameOf.MatchString(c.Name):
		return volume.Invalid(at.Child("name"), c.Name, "must begin with a letter or digit, and have at most 63 letters, digits and _.-")
	case input.IsNil(c.Plugin):
		return field.Required(at.Child("plugin"), "the driver serves it")
	case input.IsNil(c.Host):
		return field.Required(at.Child("host"), "plugins need a host")
	case input.IsNil(c.Mounter):
		return field.Required(at.Child("mounter"), "it reads the mount table")
	case !slices.Contains([]Scope{"", ScopeLocal, ScopeGlobal}, c.Scope):
		return volume.Invalid(at.Child("scope"), string(c.Scope), `must be "local" or "global"`)
	case c.Size < 0:
		return field.Invalid(at.Child("size"), c.Size, "must be at least 0")
	case c.GracePeriod < 0:
		return field.Invalid(at.Child("gracePeriod"), c.GracePeriod.String(), "must be at least 0")
	}
	for _, key := range slices.Sorted(maps.Keys(c.Parameters)) {
		if isOption(key) {
			return field.Forbidden(at.Child("parameters").Key(key), "it is an option of volumes")
		}
	}
	return nil
}

// defaults returns the configuration with the defaults of empty fields.
func (c Config) defaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.GracePeriod == 0 {
		c.GracePeriod = 10 * time.Second
	}
	if c.Size == 0 {
		c.Size = 1 << 30
	}
	if c.Scope == "" {
		c.Scope = ScopeLocal
	}
	c.Parameters = maps.Clone(c.Parameters)
	return c
}

// The abilities of the plugin. Nil: it lacks one.
type abilities struct {
	paths       volume.PathVolumePlugin
	provisioner volume.ProvisionableVolumePlugin
	deleter     volume.DeletableVolumePlugin
}

func abilitiesOf(c Config) (a abilities, err error) {
	at := field.NewPath("config", "plugin")
	var is bool
	if a.paths, is = volume.As[volume.PathVolumePlugin](c.Plugin); !is {
		return a, volume.Invalid(at, c.Plugin.GetPluginName(), "must be a volume.PathVolumePlugin")
	}
	a.provisioner, _ = volume.As[volume.ProvisionableVolumePlugin](c.Plugin)
	a.deleter, _ = volume.As[volume.DeletableVolumePlugin](c.Plugin)
	switch {
	case (a.provisioner == nil) != (a.deleter == nil):
		return a, volume.Invalid(at, c.Plugin.GetPluginName(), "must both provision and delete, or neither")
	case a.provisioner == nil && c.Share == nil:
		return a, field.Required(field.NewPath("config", "share"), fmt.Sprintf("plugin %s creates no volumes", c.Plugin.GetPluginName()))
	}
	return a, nil
}
