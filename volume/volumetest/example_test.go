package volumetest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// startPod is the code under test: it retries once after a transient error.
func startPod(ctx context.Context, mounter volume.Mounter) error {
	err := mounter.SetUp(ctx, volume.MounterArgs{})
	if volume.KindOf(err) == volume.Transient {
		err = mounter.SetUp(ctx, volume.MounterArgs{})
	}
	return err
}

func ExampleFakePlugin() {
	root, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(root)
	host, _ := volume.NewHost(context.Background(), root)
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	_, _ = volume.NewVolumePluginMgr(context.Background(), host, plugin)
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "5c0e-77"}}
	mounter, _ := plugin.NewMounter(plugin.NewSpec("data", host.Root()), pod)

	plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: volume.ErrTransient, Times: 1})
	err := startPod(context.Background(), mounter)
	fmt.Println("after a transient error:", err, plugin.Calls(volumetest.SetUp), "calls")

	plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Err: errors.New("no such export")})
	err = startPod(context.Background(), mounter)
	fmt.Println("after a final error:", err, plugin.Calls(volumetest.SetUp), "calls")
	// Output:
	// after a transient error: <nil> 2 calls
	// after a final error: SetUp: no such export 3 calls
}

// A plugin's own test passes its configuration to TestPlugin.
func ExampleTestPlugin() {
	_ = func(t *testing.T) { // func TestContract(t *testing.T)
		volumetest.TestPlugin(t, volumetest.Config[*testing.T]{
			New: func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
				return volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter})
			},
			Spec: newSpec,
		})
	}
	// Output:
}
