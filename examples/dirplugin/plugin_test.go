package dirplugin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestContract is all the test that a plugin needs for a start: on a kernel in memory, which can be made to fail, and on
// the real one, in a namespace where no root is needed.
func TestContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) { volumetest.TestPlugin(t, contract()) })
	t.Run("real", func(t *testing.T) {
		if !mounttest.Namespace(t) {
			return
		}
		config := contract()
		config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
		volumetest.TestPlugin(t, config)
	})
}

// TestIssue: a volume has the identity of its pod, and a repeated SetUp has the next one.
func TestIssue(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	serial := "1"
	plugin := &Plugin{Mounter: mounttest.NewFake(mount.Config{}), Issue: func(_ context.Context, pod *v1.Pod) (map[string]atomicdir.File, error) {
		return map[string]atomicdir.File{"name": {Data: []byte(pod.Name + "-" + serial)}}, nil
	}}
	if err := plugin.Init(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	mounter, err := plugin.NewMounter(newSpec("identity", Driver), &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "8d3c"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, serial = range []string{"1", "2"} {
		if err := mounter.SetUp(t.Context(), volume.MounterArgs{}); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(mounter.GetPath(), "name")); string(text) != "web-"+serial {
			t.Fatalf("%q, %v", text, err)
		}
	}
}

// contract returns the configuration of the contract test: it creates the plugin, valid volumes, and others.
func contract() volumetest.Config[*testing.T] {
	last := new(atomic.Int32)
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return &Plugin{Mounter: m, Issue: func(_ context.Context, pod *v1.Pod) (map[string]atomicdir.File, error) {
				return map[string]atomicdir.File{"name": {Data: []byte(pod.Name)}}, nil
			}}
		},
		Spec:            func(*testing.T) *volume.Spec { return newSpec(fmt.Sprint("identity-", last.Add(1)), Driver) },
		Unsupported:     []*volume.Spec{volume.NewSpecFromVolume(&v1.Volume{Name: "v"}), newSpec("v", "another.example.com")},
		Ephemeral:       true,
		RuntimeReadOnly: true,
	}
}

func newSpec(name, driver string) *volume.Spec {
	return volume.NewSpecFromVolume(&v1.Volume{Name: name, VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{Driver: driver}}})
}
