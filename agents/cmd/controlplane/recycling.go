package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// A recycling is the configuration of the pods that recycle the volumes of one kind.
type recycling struct {
	template           string // the file with the pod; "": the pod of package recycler
	minimum, increment int    // seconds; increment for each GiB
}

// check returns an error for the flags of a kind of volumes.
func (r recycling) check(minimum, increment string) error {
	for name, seconds := range map[string]int{minimum: r.minimum, increment: r.increment} {
		if seconds < 1 || seconds > math.MaxInt32 {
			return fmt.Errorf("-%s must be between 1 and %d, got %d", name, math.MaxInt32, seconds)
		}
	}
	return nil
}

// newRecycler returns the recycler of the volumes whose source in a pod source returns.
func (r recycling) newRecycler(cluster api.Cluster, source func(*v1.PersistentVolume) (v1.VolumeSource, error), record func(recycler.Event)) (*recycler.Pod, error) {
	config := recycler.PodConfig{
		Client: bind.PodClient(cluster), Owner: "volumekit-controlplane", Source: source, Recorder: record,
		MinimumTimeout: time.Duration(r.minimum) * time.Second, TimeoutIncrement: time.Duration(r.increment) * time.Second,
	}
	if r.template == "" {
		return recycler.NewPod(config)
	}
	pod, err := readPod(r.template)
	if err != nil {
		return nil, err
	}
	config.Template, config.Namespace = pod, pod.Namespace
	return recycler.NewPod(config)
}

// readPod returns the pod of a file, in YAML or JSON.
func readPod(file string) (*v1.Pod, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	pod, err := runtime.Decode(strict, text)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
	}
	if pod, ok := pod.(*v1.Pod); ok {
		return pod, nil
	}
	return nil, fmt.Errorf("decode %s: %T, expected a pod", file, pod)
}

// hostPathSource returns a function that returns the source by which a pod mounts a volume of a host path. The
// path must be an entry of one of the directories: a pod that writes to a volume cannot replace the directories
// above it by a link, which the recycling would follow. A node without the directory does not start the pod.
func hostPathSource(roots []string) func(*v1.PersistentVolume) (v1.VolumeSource, error) {
	return func(pv *v1.PersistentVolume) (source v1.VolumeSource, err error) {
		of := pv.Spec.HostPath
		if of == nil || path.Clean(of.Path) != of.Path || !slices.Contains(roots, path.Dir(of.Path)) || of.Path == "/" {
			return source, fmt.Errorf("recycle a host path outside of -pv-recycler-roots-hostpath: %w", volume.ErrNotSupported)
		}
		kind := v1.HostPathDirectory
		source.HostPath = &v1.HostPathVolumeSource{Path: of.Path, Type: &kind}
		return source, nil
	}
}

// parseRoots returns the directories of a flag, with commas.
func parseRoots(text string) (roots []string, err error) {
	if text == "" {
		return nil, nil
	}
	for root := range strings.SplitSeq(text, ",") {
		if !path.IsAbs(root) || path.Clean(root) != root || root == "/" {
			return nil, fmt.Errorf("-pv-recycler-roots-hostpath: %q must be a clean absolute path below /", root)
		}
		roots = append(roots, root)
	}
	return roots, nil
}

// errSeveralNodes is the reason why a host path is not recycled: the pod might empty another node's directory.
var errSeveralNodes = errors.New("host paths are recycled in clusters of one node: several nodes exist")

// A pluginOfPods is the plugin of volumes of one kind, which pods recycle. It mounts none.
type pluginOfPods struct {
	*recycler.Pod
	name     string
	supports func(*v1.PersistentVolume) bool
	nodes    api.NodesGetter // nil: a pod on any node recycles
}

var _ volume.RecyclableVolumePlugin = pluginOfPods{}

func (p pluginOfPods) Init(context.Context, volume.VolumeHost) error { return nil }
func (p pluginOfPods) GetPluginName() string                         { return p.name }
func (p pluginOfPods) CanSupport(spec *volume.Spec) bool {
	return spec.PersistentVolume != nil && p.supports(spec.PersistentVolume)
}

func (p pluginOfPods) GetVolumeName(*volume.Spec) (string, error) { return "", volume.ErrNotSupported }
func (p pluginOfPods) NewMounter(*volume.Spec, *v1.Pod) (volume.Mounter, error) {
	return nil, volume.ErrNotSupported
}

func (p pluginOfPods) NewUnmounter(string, types.UID) (volume.Unmounter, error) {
	return nil, volume.ErrNotSupported
}

func (p pluginOfPods) ConstructVolumeSpec(context.Context, string, string) (volume.ReconstructedVolume, error) {
	return volume.ReconstructedVolume{}, volume.ErrNotSupported
}

// Recycle implements volume.Recycler.
func (p pluginOfPods) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	if p.nodes == nil {
		return p.Pod.Recycle(ctx, name, spec)
	}
	list, err := p.nodes.Nodes().List(ctx, metav1.ListOptions{Limit: 2})
	switch {
	case err != nil:
		return volume.AsTransient(fmt.Errorf("list nodes: %w", err))
	case len(list.Items) > 1:
		return errSeveralNodes
	}
	return p.Pod.Recycle(ctx, name, spec)
}

// recyclers are the plugins that recycle volumes by pods.
type recyclers []pluginOfPods

// newRecyclers returns the plugins for NFS volumes, and for host paths if these are recycled.
func (p *plane) newRecyclers() (all recyclers, err error) {
	pods, err := p.nfs.newRecycler(p.cluster, recycler.NFSSource, p.recordRecycling)
	if err != nil {
		return nil, fmt.Errorf("-pv-recycler-pod-template-filepath-nfs: %w", err)
	}
	all = append(all, pluginOfPods{Pod: pods, name: "kubernetes.io/nfs", supports: func(pv *v1.PersistentVolume) bool { return pv.Spec.NFS != nil }})
	if len(p.hostPathRoots) == 0 {
		return all, nil
	}
	if pods, err = p.hostPath.newRecycler(p.cluster, hostPathSource(p.hostPathRoots), p.recordRecycling); err != nil {
		return nil, fmt.Errorf("-pv-recycler-pod-template-filepath-hostpath: %w", err)
	}
	return append(all, pluginOfPods{
		Pod: pods, name: "kubernetes.io/host-path", supports: func(pv *v1.PersistentVolume) bool { return pv.Spec.HostPath != nil }, nodes: p.cluster,
	}), nil
}

// register returns a register with the plugins.
func (r recyclers) register(ctx context.Context) (*volume.VolumePluginMgr, error) {
	var plugins []volume.VolumePlugin
	for _, plugin := range r {
		plugins = append(plugins, plugin)
	}
	return volume.NewVolumePluginMgr(ctx, &volume.Host{}, plugins...) // without directories: the plugins touch no file
}

// recordRecycling sends an event of a recycler's pod as one of its volume.
func (p *plane) recordRecycling(e recycler.Event) {
	p.announce(api.Event{
		Object: &v1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolume", Name: e.Volume, UID: e.VolumeUID},
		Type:   e.Type, Reason: "RecyclerPod", Message: "Recycler pod: " + e.Message,
	})
}

// removalTime limits the removal of the pods of recyclers at the end of the program. The next run removes the rest.
const removalTime = 20 * time.Second

// removePods waits until the pods of the recyclers are removed, and logs those that are left.
func (p *plane) removePods() {
	ctx, cancel := context.WithTimeout(context.Background(), removalTime)
	defer cancel()
	for _, plugin := range p.recyclers {
		if err := plugin.Wait(ctx); err != nil {
			p.logger.Warn("pods that recycle volumes are left", "plugin", plugin.name, "err", err)
		}
	}
}
