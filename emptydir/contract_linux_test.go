package emptydir_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestContract(t *testing.T) {
	for name, medium := range map[string]v1.StorageMedium{"disk": "", "memory": "Memory", "pages": "HugePages-2Mi"} {
		t.Run(name, func(t *testing.T) {
			if name != "pages" { // as memory, for what is no kernel
				t.Run("fake", func(t *testing.T) { volumetest.TestPlugin(t, contractConfig(medium)) })
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

// mayMount is true in a namespace in which a medium can be mounted.
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

func contractConfig(medium v1.StorageMedium) volumetest.Config {
	var volumes atomic.Int32
	arguments := volumetest.Arguments{FsGroup: volumetest.Honoured}
	if medium != "" {
		arguments.DesiredSize = volumetest.Honoured
	}
	return volumetest.Config{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return emptydir.New(emptydir.Config{Mounter: m})
		},
		Spec: func(*testing.T) *volume.Spec {
			return spec(fmt.Sprintf("v-%d", volumes.Add(1)), v1.EmptyDirVolumeSource{Medium: medium})
		},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
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
		NoMetrics:       strings.HasPrefix(string(medium), "HugePages"), // without pages nothing has a size
		Arguments:       arguments,
		Plain:           medium == "",
		Ephemeral:       true,
		RuntimeReadOnly: true,
	}
}

func spec(name string, source v1.EmptyDirVolumeSource) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: name, VolumeSource: v1.VolumeSource{EmptyDir: &source}})
}

func quantity(s string) *resource.Quantity {
	q := resource.MustParse(s)
	return &q
}
