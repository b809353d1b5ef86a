package emptydir_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContract: the plugin keeps the contract of plugins in each medium, on the fake kernel and
// the real one.
func TestContract(t *testing.T) {
	for name, medium := range map[string]v1.StorageMedium{"disk": "", "memory": "Memory", "pages": "HugePages-2Mi"} {
		t.Run(name, func(t *testing.T) {
			if name != "pages" { // the fake kernel has no huge pages
				t.Run("fake", func(t *testing.T) {
					t.Setenv("TMPDIR", testbed.Memory())
					volumetest.TestPlugin(t, contractConfig(medium))
				})
			}
			t.Run("real", func(t *testing.T) {
				if mayMount(t, medium) {
					config := contractConfig(medium)
					config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
					volumetest.TestPlugin(t, config)
				}
			})
		})
	}
}

// mayMount reports whether this process is in a namespace in which it can mount a medium.
func mayMount(t *testing.T, medium v1.StorageMedium) bool {
	if medium == "" || medium == v1.StorageMediumMemory {
		return mounttest.Namespace(t)
	}
	if !mounttest.RootNamespace(t) {
		return false
	}
	req := mount.Request{Source: "none", FSType: "hugetlbfs", Target: t.TempDir()}
	m := mount.New(mount.Config{})
	if err := m.Mount(t.Context(), req); err != nil {
		mounttest.SkipWithout(t, "hugetlbfs", err)
	}
	if err := m.Unmount(t.Context(), req.Target); err != nil {
		t.Fatal(err)
	}
	return true
}

func contractConfig(medium v1.StorageMedium) volumetest.Config[*testing.T] {
	var volumes atomic.Int32
	arguments := volumetest.Arguments{FsGroup: volumetest.Honoured}
	if medium != "" {
		arguments.DesiredSize = volumetest.Honoured
	}
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return requestingPlugin{emptydir.New(emptydir.Config{Mounter: m})}
		},
		Spec: func(*testing.T) *volume.Spec {
			return spec(fmt.Sprintf("v-%d", volumes.Add(1)), v1.EmptyDirVolumeSource{Medium: medium})
		},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{}}}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
		},
		Invalid: map[string]*volume.Spec{
			"medium":          spec("v", v1.EmptyDirVolumeSource{Medium: "Disk"}),
			"pages":           spec("v", v1.EmptyDirVolumeSource{Medium: "HugePages-3Mi"}),
			"option":          spec("v", v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi,x=y"}),
			"no pages":        spec("v", v1.EmptyDirVolumeSource{Medium: "HugePages"}),
			"negative":        spec("v", v1.EmptyDirVolumeSource{SizeLimit: quantity("-1")}),
			"beyond all size": spec("v", v1.EmptyDirVolumeSource{SizeLimit: quantity("100E")}),
		},
		NoMetrics:       strings.HasPrefix(string(medium), "HugePages"), // without pages the sizes are 0
		Arguments:       arguments,
		SELinuxRelabel:  true,
		Plain:           medium == "",
		Ephemeral:       true,
		RuntimeReadOnly: true,
	}
}

// A requestingPlugin adds the huge pages of volumes to the pods' requests.
type requestingPlugin struct{ *emptydir.Plugin }

func (p requestingPlugin) NewMounter(s *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if pod != nil && s != nil && s.Volume != nil && s.Volume.EmptyDir != nil {
		pod = withPages(pod, s.Volume.EmptyDir.Medium)
	}
	return p.Plugin.NewMounter(s, pod)
}

func withPages(pod *v1.Pod, medium v1.StorageMedium) *v1.Pod {
	size, ok := strings.CutPrefix(string(medium), "HugePages-")
	if !ok {
		return pod
	}
	pod = pod.DeepCopy()
	pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: v1.ResourceRequirements{
		Requests: v1.ResourceList{v1.ResourceName(v1.ResourceHugePagesPrefix + size): resource.MustParse("4Mi")},
	}})
	return pod
}

func spec(name string, source v1.EmptyDirVolumeSource) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &source}})
}

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}
