package content_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	host, err := volume.NewHost(context.Background(), root)
	if err != nil {
		log.Fatal(err)
	}

	// Where the bytes come from.
	objects := &content.MapGetter{}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "web"}
	objects.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"color": "blue"}})

	config := objects.Config()
	config.Mounter = mount.New(mount.Config{})
	plugins, err := volume.NewVolumePluginMgr(context.Background(), host, content.NewConfigMap(config), content.NewSecret(config),
		content.NewDownwardAPI(config), content.NewProjected(config))
	if err != nil {
		log.Fatal(err)
	}

	// As the pod has it.
	spec := volume.NewSpecFromVolume(&v1.Volume{Name: "settings", VolumeSource: v1.VolumeSource{
		ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "web"}},
	}})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-0", UID: "1234"}}
	plugin, err := plugins.FindPluginBySpec(spec)
	if err != nil {
		log.Fatal(err)
	}
	mounter, err := plugin.NewMounter(spec, pod)
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	for _, color := range []string{"blue", "green"} {
		objects.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"color": color}})
		if err := mounter.SetUp(ctx, volume.MounterArgs{}); err != nil {
			log.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(mounter.GetPath(), "color"))
		fmt.Printf("%s %v\n", data, err)
	}
	unmounter, err := plugin.NewUnmounter("settings", pod.UID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("down:", unmounter.TearDown(ctx))
	// Output:
	// blue <nil>
	// green <nil>
	// down: <nil>
}
