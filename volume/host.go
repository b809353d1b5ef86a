package volume

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Host is a [VolumeHost] with the kubelet's layout:
//
//	<root>/pods/<pod UID>/volumes/kubernetes.io~nfs/<volume>
//	<root>/pods/<pod UID>/volumeDevices/kubernetes.io~nfs
//	<root>/pods/<pod UID>/plugins/kubernetes.io~nfs
//	<root>/plugins/kubernetes.io/nfs
//
// In the directory of a pod the plugin's name is escaped as by [EscapeQualifiedName]. Host
// creates no directory. Every path it returns is strictly below the root; names that do not
// fit are refused with a [*field.Error]. Safe for concurrent use.
//
// # Differences to a kubelet
//
// A program with this host can take over the volumes of a node whose kubelet is stopped, while
// pods run, and a kubelet those of the program. The layout is the same, but for:
//
//   - hostPath volumes: package hostpath bind mounts them in the pod's directory, and a
//     kubelet cannot remove such a directory. Bridge: hostpath.Config.InPlace, which also
//     removes existing bind mounts.
//   - static pods: their directories have UIDs that are on the API server only in an annotation
//     of their mirror pods. Bridge: controllers/node, Source, which returns mirror pods with
//     these UIDs, and its Config.HasContainers and Config.LocalPods, which keep the volumes after
//     a mirror pod is deleted.
//   - flags: the mounts of a kubelet lack nosuid and nodev. The plugins of this module add
//     both in place, see util/podvolume.
//   - claims that all containers of a pod mount read-only: a kubelet mounts them writable, and
//     the plugins of this module read-only. They add ro in place, together with nosuid or nodev. A
//     volume with the mount options nosuid and nodev lacks ro alone and is refused: let one container
//     mount the claim writable.
//   - propagation: the mounts of a kubelet are shared, those of this module private. Both stay as
//     they are after a take-over, and after giving back. A container with the mountPropagation
//     HostToContainer or Bidirectional requires a shared mount. Bridge: none, create these pods
//     again under the kubelet; containers without mountPropagation do not notice.
//   - notes: the kubelet notes that a volume is ready in an empty file, which package
//     podvolume accepts and removes with the volume. Its own notes are extended attributes,
//     which a kubelet does not read: it sets owner and mode of an emptyDir again. Bridge:
//     emptydir.Config.NoteFiles.
//   - read-only views of a claim that the pod also writes to (podvolume.ViewName): a kubelet
//     unmounts them, since no pod has a volume of such a name, and containers keep theirs.
//   - groups: a kubelet starts a pod when files of its volumes cannot be given to the fsGroup, such
//     as an immutable one. Bridge: local.Config.OnUnchanged, csi.Config.OnUnchanged
//   - raw block devices: a kubelet maps those of package local below
//     <root>/plugins/kubernetes.io~local-volume/volumeDevices, holds them by a loop device,
//     and is the only one to release them there. Bridge: none, drain these pods.
//   - emptyDir volumes on huge pages: the source of a kubelet's mount is nodev, that of package
//     emptydir hugetlbfs, so that its SetUp refuses the kubelet's mount. Bridge: none, drain
//     these pods.
//   - records: <root>/plugins/volumekit.io, and those of disks below
//     <root>/plugins/kubernetes.io/local-volume. A kubelet ignores them.
//   - volumes of plugins that are not registered, such as kubernetes.io/csi: package manager
//     leaves them as they are and shows them as leftovers.
type Host struct {
	root       string
	targetDirs []string // without symbolic links, once NewHost has returned
	nodeName   types.NodeName
}

var _ VolumeHost = (*Host)(nil)

// A HostOption configures [NewHost].
type HostOption func(*Host)

// WithNodeName sets the node's name in the cluster. The default is os.Hostname.
func WithNodeName(name types.NodeName) HostOption {
	return func(h *Host) { h.nodeName = name }
}

// WithTargetDirs allows volumes to be mounted below these directories, outside the root, such
// as "/var/lib/kubelet" for a CSI driver. They are absolute paths of directories that exist.
func WithTargetDirs(dirs ...string) HostOption {
	return func(h *Host) { h.targetDirs = append(h.targetDirs, dirs...) }
}

// NewHost returns the host whose volumes are below root, an absolute path of an existing
// directory. It resolves symbolic links in the path once: later changes of them have no
// effect. The error of a missing root wraps fs.ErrNotExist.
//
// If ctx ends before the file system of the root has answered, NewHost returns an error
// that wraps ctx.Err() and the cause.
func NewHost(ctx context.Context, root string, opts ...HostOption) (_ *Host, err error) {
	defer brief.Shorten(&err)
	resolved, err := resolveInTime(ctx, field.NewPath("root"), root)
	if err != nil {
		return nil, err
	}
	h := &Host{root: resolved}
	for _, opt := range opts {
		opt(h)
	}
	for i, dir := range h.targetDirs {
		if h.targetDirs[i], err = resolveTargetDir(ctx, i, dir); err != nil {
			return nil, err
		}
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

// resolving holds the directories whose file systems are queried.
var resolving keylock.Map

func resolveInTime(ctx context.Context, path *field.Path, dir string) (string, error) {
	work := func() (string, error) { return resolveDir(path, dir) }
	resolved, _, err := keylock.Await(ctx, resolving.Key(path.String()+dir), ctxend.Kernel, work, nil)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%s of the volume host: %w", path, err)
	}
	return resolved, err
}

// resolveDir returns the path of an existing directory without symbolic links.
func resolveDir(path *field.Path, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", Invalid(path, dir, "must be absolute")
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("%s of the volume host: %w", path, err)
	}
	info, err := os.Stat(resolved)
	if err != nil {
		return "", fmt.Errorf("%s of the volume host: %w", path, err)
	}
	if !info.IsDir() {
		return "", Invalid(path, dir, "not a directory")
	}
	return resolved, nil
}

// resolveTargetDir refuses the root of the file system: every path would be a target.
func resolveTargetDir(ctx context.Context, i int, dir string) (string, error) {
	path := field.NewPath("targetDirs").Index(i)
	resolved, err := resolveInTime(ctx, path, dir)
	if err == nil && filepath.Dir(resolved) == resolved {
		return "", Invalid(path, dir, "must not be the root of the file system")
	}
	return resolved, err
}

// NodeName returns the name of the node.
func (h *Host) NodeName() types.NodeName { return h.nodeName }

// Root returns the directory that holds all the others, without symbolic links.
func (h *Host) Root() string { return h.root }

// OwnDirs returns <root>/pods, <root>/plugins and the directories of [WithTargetDirs].
func (h *Host) OwnDirs() []string { return append([]string{h.pods(), h.plugins()}, h.targetDirs...) }

// TargetDirs returns the directories of [WithTargetDirs], in their order, without symbolic
// links.
func (h *Host) TargetDirs() []string { return slices.Clone(h.targetDirs) }

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

// PodPluginDir returns a plugin's own directory for a pod.
func (h *Host) PodPluginDir(podUID types.UID, pluginName string) (string, error) {
	return h.podPlugin("plugins", podUID, pluginName)
}

// PluginDir returns a plugin's own directory. Unlike in the directory of a pod the name is not
// escaped.
func (h *Host) PluginDir(pluginName string) (string, error) {
	path := field.NewPath("pluginName")
	if _, err := escapeQualifiedName(path, pluginName); err != nil {
		return "", err
	}
	dir := h.plugins()
	for part := range strings.SplitSeq(pluginName, "/") {
		var err error
		if dir, err = h.below(path, dir, part); err != nil {
			return "", err
		}
	}
	return dir, nil
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

// below returns the path of a name in dir after validating the name. No other function makes
// a name part of a path. Dir is the root or below it, and the name is one component.
func (h *Host) below(path *field.Path, dir, name string) (string, error) {
	if h.root == "" {
		return "", errNoRoot
	}
	if err := ValidatePathComponent(path, name); err != nil {
		return "", err
	}
	return filepath.Join(dir, name), nil
}
