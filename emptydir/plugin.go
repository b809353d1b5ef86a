package emptydir

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/empty-dir"

// Config configures the plugin.
type Config struct {
	// Mounter mounts volumes in memory, and finds mounts in others. Required.
	Mounter mount.Interface
	// MemorySize is the size in bytes of a volume in memory without any limit. Zero: the
	// memory that Node returns, or half of the machine's memory.
	MemorySize int64
	// Node returns the memory that pods may use of the node. No volume in memory is larger.
	// Nil: none is larger than the machine's memory.
	Node NodeGetter
	// NoteFiles keeps the notes that volumes are ready in files, at the kubelet's place, and not
	// in extended attributes, which are faster. It is for nodes that a kubelet takes over: without
	// such a file a kubelet sets owner and mode of the volume again, which the pod may have
	// changed. A volume that is set up gets its file at the next SetUp.
	NoteFiles bool
}

// A NodeGetter returns the allocatable resources of the node, which must include memory. It
// is called each time that a volume in memory is set up. Its errors are transient.
type NodeGetter interface {
	GetNodeAllocatable(ctx context.Context) (v1.ResourceList, error)
}

// Plugin is the volume plugin. [New] returns one.
type Plugin struct {
	config Config
	host   volume.VolumeHost
	dirs   *podvolume.Dirs
	memory int64 // of the machine; 0: unknown
}

var (
	_ volume.VolumePlugin     = (*Plugin)(nil)
	_ volume.PathVolumePlugin = (*Plugin)(nil)
)

// New returns the plugin. Init returns an error if the configuration is invalid.
func New(config Config) *Plugin { return &Plugin{config: config} }

// Init reads the size of the machine's memory, unless Config.Node is set. If the system does
// not report it, Config.MemorySize is required.
func (p *Plugin) Init(ctx context.Context, host volume.VolumeHost) error {
	switch {
	case p.config.Mounter == nil:
		return errors.New("emptydir: Config.Mounter is missing")
	case p.config.MemorySize < 0:
		return fmt.Errorf("emptydir: Config.MemorySize must be at least 0, got %d", p.config.MemorySize)
	case p.config.Node == nil:
		var err error
		if p.memory, err = nodeMemory(); err != nil && p.config.MemorySize == 0 {
			return err
		}
	}
	var options []podvolume.DirsOption
	if p.config.NoteFiles {
		options = append(options, podvolume.WithNoteFiles())
	}
	p.host, p.dirs = host, podvolume.NewDirs(host, p.config.Mounter, PluginName, options...)
	return nil
}

// GetPluginName returns [PluginName].
func (p *Plugin) GetPluginName() string { return PluginName }

// GetVolumeName returns the volume's name in its pod. Volumes of different pods are
// different even if they have the same name.
func (p *Plugin) GetVolumeName(spec *volume.Spec) (string, error) {
	if err := p.check(spec); err != nil {
		return "", err
	}
	return spec.Name(), nil
}

// CanSupport reports whether the volume is an emptyDir. A volume of a pod without a source is
// one, by the API server's defaults.
func (p *Plugin) CanSupport(spec *volume.Spec) bool { return sourceOf(spec) != nil }

// sourceOf returns the source with the API server's defaults, or nil.
func sourceOf(spec *volume.Spec) *v1.EmptyDirVolumeSource {
	switch {
	case spec == nil || spec.Volume == nil:
		return nil
	case spec.Volume.Name != "" && spec.Volume.VolumeSource == v1.VolumeSource{}:
		return &v1.EmptyDirVolumeSource{}
	}
	return spec.Volume.EmptyDir
}

// NewMounter validates the specification: a known medium, huge pages that the pod requests,
// and a size that is not negative. The error is a [*field.Error].
//
// GetMetrics of the volume counts the files of a volume on disk, at most every ten seconds; capacity and free space are
// those of the file system, which other directories share. For a volume in memory it measures the file system.
func (p *Plugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if err := p.check(spec); err != nil {
		return nil, err
	}
	if pod == nil {
		return nil, field.Required(field.NewPath("pod"), "a volume needs a pod")
	}
	source := sourceOf(spec).DeepCopy()
	medium, err := parseMedium(source.Medium, pod)
	if err != nil {
		return nil, err
	}
	limit, err := limitOf(source.SizeLimit)
	if err != nil {
		return nil, err
	}
	dir, err := p.dir(spec.Name(), pod.UID)
	if err != nil {
		return nil, err
	}
	m := &mounter{p, *source, medium, smallest(limit, podvolume.Memory(pod)), limit}
	attributes := volume.Attributes{ReadOnly: spec.IsReadOnly(), Managed: true, SELinuxRelabel: true}
	return podvolume.NewMounter(p.dirs, dir, attributes, m.setUp), nil
}

// NewUnmounter returns an unmounter, which removes the volume's files. It requires the names alone.
//
// Mounts in a volume on disk stay, with the directories that lead to them: the error of TearDown wraps a
// [*scrub.UnremovableError], and the same call continues after they are unmounted. A volume in memory with a mount in it
// is busy. A directory at another path than GetPath that SetUpAt has not set up stays, unless it is empty.
func (p *Plugin) NewUnmounter(volumeName string, podUID types.UID) (volume.Unmounter, error) {
	dir, err := p.dir(volumeName, podUID)
	if err != nil {
		return nil, err
	}
	return podvolume.NewUnmounter(p.dirs, dir), nil
}

// NewUnmounterAt implements [volume.PathVolumePlugin].
func (p *Plugin) NewUnmounterAt(path string) (volume.Unmounter, error) {
	at, err := p.dirs.Below(field.NewPath("path"), path)
	if err != nil {
		return nil, err
	}
	return podvolume.NewUnmounter(p.dirs, at), nil
}

// check returns an error unless the specification is of an emptyDir.
func (p *Plugin) check(spec *volume.Spec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if !p.CanSupport(spec) {
		return field.Required(field.NewPath("spec", "volume", "emptyDir"), "not an emptyDir")
	}
	return nil
}

var errNotInitialised = errors.New("emptydir: the plugin is not initialised")

// dir validates the names and returns the volume's path for the pod.
func (p *Plugin) dir(name string, podUID types.UID) (string, error) {
	if p.host == nil {
		return "", errNotInitialised
	}
	return p.host.PodVolumeDir(podUID, PluginName, name)
}
