package volume

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Host is a [VolumeHost] with the kubelet's layout:
//
//	<root>/pods/<pod UID>/volumes/<plugin>/<volume>
//	<root>/pods/<pod UID>/volumeDevices/<plugin>
//	<root>/pods/<pod UID>/plugins/<plugin>
//	<root>/plugins/<plugin>
//
// with plugins escaped as [EscapeQualifiedName] does. It creates none of them.
// Every path it returns is strictly below the root; names that do not fit are
// refused with a [*field.Error]. Safe for concurrent use.
type Host struct {
	root     string
	nodeName types.NodeName
}

var _ VolumeHost = (*Host)(nil)

// A HostOption changes what [NewHost] assumes.
type HostOption func(*Host)

// WithNodeName gives the node the name that the cluster knows it by. Without it
// the node is called as os.Hostname says.
func WithNodeName(name types.NodeName) HostOption {
	return func(h *Host) { h.nodeName = name }
}

// NewHost returns the host whose volumes live below root, an absolute path of a
// directory that exists. Symbolic links on the way to it are resolved here, once
// and for all: what becomes of them later has no effect. A missing root is an
// error that wraps fs.ErrNotExist.
func NewHost(root string, opts ...HostOption) (*Host, error) {
	resolved, err := resolveRoot(root)
	if err != nil {
		return nil, err
	}
	h := &Host{root: resolved}
	for _, opt := range opts {
		opt(h)
	}
	if h.nodeName != "" {
		return h, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name of the node: %w", err)
	}
	h.nodeName = types.NodeName(name)
	return h, nil
}

func resolveRoot(root string) (string, error) {
	path := field.NewPath("root")
	if !filepath.IsAbs(root) {
		return "", Invalid(path, root, "the root of a host is an absolute path")
	}
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", fmt.Errorf("root of the volume host: %w", err)
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", fmt.Errorf("root of the volume host: %w", err)
	}
	if !info.IsDir() {
		return "", Invalid(path, root, "the root of a host is a directory")
	}
	return resolved, nil
}

// NodeName returns the name of the node.
func (h *Host) NodeName() types.NodeName { return h.nodeName }

// Root returns the directory that holds all the others, without symbolic links.
func (h *Host) Root() string { return h.root }

// OwnDirs returns <root>/pods and <root>/plugins.
func (h *Host) OwnDirs() []string { return []string{h.pods(), h.plugins()} }

func (h *Host) pods() string    { return filepath.Join(h.root, "pods") }
func (h *Host) plugins() string { return filepath.Join(h.root, "plugins") }

// PodVolumeDir returns the directory of a pod's volume.
func (h *Host) PodVolumeDir(podUID types.UID, pluginName, volumeName string) (string, error) {
	plugin, err := h.podPlugin("volumes", podUID, pluginName)
	if err != nil {
		return "", err
	}
	return h.below(field.NewPath("volumeName"), plugin, volumeName)
}

// PodVolumeDeviceDir returns the directory of a pod's block volumes.
func (h *Host) PodVolumeDeviceDir(podUID types.UID, pluginName string) (string, error) {
	return h.podPlugin("volumeDevices", podUID, pluginName)
}

// PodPluginDir returns the directory that a plugin has to itself for a pod.
func (h *Host) PodPluginDir(podUID types.UID, pluginName string) (string, error) {
	return h.podPlugin("plugins", podUID, pluginName)
}

// PluginDir returns the directory that a plugin has to itself.
func (h *Host) PluginDir(pluginName string) (string, error) {
	return h.plugin(h.plugins(), pluginName)
}

func (h *Host) podPlugin(kind string, podUID types.UID, pluginName string) (string, error) {
	pod, err := h.below(field.NewPath("podUID"), h.pods(), string(podUID))
	if err != nil {
		return "", err
	}
	return h.plugin(filepath.Join(pod, kind), pluginName)
}

func (h *Host) plugin(dir, pluginName string) (string, error) {
	path := field.NewPath("pluginName")
	escaped, err := escapeQualifiedName(path, pluginName)
	if err != nil {
		return "", err
	}
	return h.below(path, dir, escaped)
}

var errNoRoot = errors.New("the volume host has no root: it was not made by NewHost")

// below is the only place where a name becomes part of a path. Dir is the root or
// below it, and a name that is one component leads further down.
func (h *Host) below(path *field.Path, dir, name string) (string, error) {
	if h.root == "" {
		return "", errNoRoot
	}
	if err := ValidatePathComponent(path, name); err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}
