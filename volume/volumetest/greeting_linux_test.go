package volumetest_test

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestExamplePluginKeepsTheContract: the plugin of the example can be copied.
func TestExamplePluginKeepsTheContract(t *testing.T) {
	t.Run("fake", func(t *testing.T) { volumetest.TestPlugin(t, greetingConfig()) })
	t.Run("real", func(t *testing.T) {
		if !mounttest.Namespace(t) {
			return
		}
		config := greetingConfig()
		config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
		volumetest.TestPlugin(t, config)
	})
}

func greetingConfig() volumetest.Config[*testing.T] {
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
			return &greetings{mounter: mounter}
		},
		Spec:            func(*testing.T) *volume.Spec { return newGreeting(fmt.Sprintf("v-%d", volumes.Add(1)), "world") },
		Unsupported:     []*volume.Spec{volume.NewSpecFromVolume(&v1.Volume{Name: "v"})},
		Plain:           true,
		Ephemeral:       true,
		RuntimeReadOnly: true,
	}
}
