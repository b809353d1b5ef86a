package volume

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/keylock"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A VolumePluginMgr is the register of a node's plugins. Plugins are added, also
// while it is in use, and never removed.
//
// All methods are safe for concurrent use. Lookups take no lock: they read a
// snapshot that registration replaces as a whole.
type VolumePluginMgr struct {
	host     VolumeHost
	register keylock.Map // held by Register, one at a time
	plugins  atomic.Pointer[pluginSet]
}

// A pluginSet is not changed once it can be seen.
type pluginSet struct {
	byName map[string]VolumePlugin
	sorted []registered // by name
}

type registered struct {
	name   string // as it was at registration
	plugin VolumePlugin
}

// NewVolumePluginMgr returns a register with the plugins in it, which are given
// the host. The errors are those of [VolumePluginMgr.Register].
func NewVolumePluginMgr(ctx context.Context, host VolumeHost, plugins ...VolumePlugin) (*VolumePluginMgr, error) {
	if input.IsNil(host) {
		return nil, errNoHost
	}
	m := &VolumePluginMgr{host: host}
	if err := m.Register(ctx, plugins...); err != nil {
		return nil, err
	}
	return m, nil
}

var errNoHost = field.Required(field.NewPath("host"), "plugins need a host")

// Host returns the host that the plugins were initialized with. It is nil for the zero
// value, which [NewVolumePluginMgr] did not make, and for a nil register.
func (m *VolumePluginMgr) Host() VolumeHost {
	if m == nil {
		return nil
	}
	return m.host
}

// Register adds plugins: all of them, or none if there is an error. First their
// names are checked: a nil plugin, a name that is not "prefix/name" or cannot
// stand in a path, and one that is taken, are refused with a [*field.Error].
// Then each plugin's Init is called, once; its error is wrapped. Plugins whose
// Init was called before another's failed are not registered, and Init is called
// again if they are registered later. An Init must not call Register. Register passes ctx
// to each Init and returns as soon as that does; if ctx ends while another Register is at
// work, the error wraps the cause of ctx.
func (m *VolumePluginMgr) Register(ctx context.Context, plugins ...VolumePlugin) error {
	if m.host == nil {
		return errNoHost
	}
	unlock, err := m.register.Lock(ctx, "")
	if err != nil {
		return fmt.Errorf("register volume plugins: %w", err)
	}
	defer unlock()
	byName := maps.Clone(m.snapshot().byName)
	if byName == nil {
		byName = make(map[string]VolumePlugin, len(plugins))
	}
	added, err := addPlugins(byName, plugins)
	if err != nil {
		return err
	}
	for _, r := range added {
		if err := r.plugin.Init(ctx, m.host); err != nil {
			return fmt.Errorf("init of volume plugin %q: %w", r.name, err)
		}
	}
	m.plugins.Store(newPluginSet(byName))
	return nil
}

// Plugins returns the plugins, sorted by name. The slice is the caller's.
func (m *VolumePluginMgr) Plugins() []VolumePlugin {
	sorted := m.snapshot().sorted
	plugins := make([]VolumePlugin, len(sorted))
	for i, r := range sorted {
		plugins[i] = r.plugin
	}
	return plugins
}

func (m *VolumePluginMgr) snapshot() *pluginSet {
	if set := m.plugins.Load(); set != nil {
		return set
	}
	return &pluginSet{}
}

func newPluginSet(byName map[string]VolumePlugin) *pluginSet {
	set := &pluginSet{byName: byName}
	for name, plugin := range byName {
		set.sorted = append(set.sorted, registered{name, plugin})
	}
	slices.SortFunc(set.sorted, func(a, b registered) int { return cmp.Compare(a.name, b.name) })
	return set
}

// addPlugins adds plugins to the map and returns them. A nil plugin, an invalid name and a
// duplicate name are errors.
func addPlugins(byName map[string]VolumePlugin, plugins []VolumePlugin) ([]registered, error) {
	added := make([]registered, 0, len(plugins))
	for i, plugin := range plugins {
		path := field.NewPath("plugins").Index(i)
		if input.IsNil(plugin) {
			return nil, field.Required(path, "must not be nil")
		}
		name := plugin.GetPluginName()
		if err := validatePluginName(path, name); err != nil {
			return nil, err
		}
		if _, taken := byName[name]; taken {
			return nil, field.Duplicate(path, name)
		}
		byName[name] = plugin
		added = append(added, registered{name, plugin})
	}
	return added, nil
}

func validatePluginName(path *field.Path, name string) error {
	if !strings.Contains(name, "/") {
		return Invalid(path, name, `must have a prefix, as in "kubernetes.io/nfs"`)
	}
	if problems := validation.IsQualifiedName(name); len(problems) > 0 {
		return Invalid(path, name, problems[0])
	}
	_, err := escapeQualifiedName(path, name)
	return err
}
