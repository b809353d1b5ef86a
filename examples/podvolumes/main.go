// Podvolumes mounts the volumes of a pod from a manifest, shows them, and unmounts them again, as a node agent does. It
// runs in a mount namespace of its own: no root is needed. Of pod.yaml, go run ./examples/podvolumes prints
//
//	web/cache is at pods/8d3c/volumes/kubernetes.io~empty-dir/cache, read-only: false
//	web/data is at pods/8d3c/volumes/kubernetes.io~local-volume/ssd, read-only: false
//	web/password is at pods/8d3c/volumes/kubernetes.io~secret/password, read-only: true
//	web/settings is at pods/8d3c/volumes/kubernetes.io~configmap/settings, read-only: true
//	all volumes are unmounted: true
package main

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

//go:embed pod.yaml
var builtin []byte

func main() {
	file := flag.String("f", "", "the `FILE` of a manifest as package manifests reads it (default: pod.yaml of this example)")
	disks := flag.String("disks", "", "the `DIR` for local and hostPath volumes, ${DISKS} in the manifest (default: a new one)")
	flag.Parse()
	dir, err := mounttest.Sandbox() // a node agent runs as root, without
	if err == nil {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		defer stop()
		err = run(ctx, dir, *file, *disks)
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run mounts the volumes of a manifest, and unmounts them again.
func run(ctx context.Context, dir, file, disks string) (err error) {
	text := builtin
	if file != "" {
		text, err = os.ReadFile(file)
	}
	ownDisks, root, manifest := dir+"/disks", dir+"/root/", dir+"/manifests/pod.yaml"
	disks = cmp.Or(disks, ownDisks)
	text = bytes.ReplaceAll(text, []byte("${DISKS}"), []byte(disks))
	source, errOfNew := manifests.New(ctx, manifests.Config{Dir: dir + "/manifests"})
	_, invalid := manifests.Parse(file, text) // names the document and the field
	err = errors.Join(err, errOfNew, invalid, os.MkdirAll(ownDisks+"/ssd", 0o755), os.Mkdir(root, 0o755), os.Mkdir(dir+"/manifests", 0o755), os.WriteFile(manifest, text, 0o600))
	if err != nil {
		return err
	}
	mounter := mount.New(mount.Config{})
	defer mounter.Close()
	volumes, err := newManager(ctx, mounter, source, root, disks)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	go func() { stop(source.Run(ctx)) }()
	go func() { stop(volumes.Run(ctx)) }()
	err = errors.Join(show(ctx, source, volumes, root), os.Remove(manifest), volumes.WaitForAllPodsUnmount(ctx))
	fmt.Println("all volumes are unmounted:", err == nil)
	return err
}

// show waits for the volumes of each pod, and says where they are.
func show(ctx context.Context, source *manifests.Source, volumes *manager.Manager, root string) error {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	pods, err := source.Pods(ctx)
	if len(pods) == 0 {
		return errors.Join(err, errors.New("the manifest has no pod"))
	}
	for _, pod := range pods {
		if err := volumes.WaitForVolumes(ctx, pod, manager.WaitOptions{EndOnFinalError: true}); err != nil {
			return err
		}
		mounted := volumes.GetMountedVolumesForPod(pod.UID)
		for _, name := range slices.Sorted(maps.Keys(mounted)) {
			fmt.Printf("%s/%s is at %s, read-only: %v\n", pod.Name, name, strings.TrimPrefix(mounted[name].Path, root), mounted[name].ReadOnly)
		}
	}
	return nil
}

// newManager returns the manager that keeps the volumes of the source's pods mounted below root. Local and hostPath
// volumes may be in the directories of disks, and nowhere else.
func newManager(ctx context.Context, mounter mount.Interface, pods *manifests.Source, root string, disks ...string) (*manager.Manager, error) {
	host, err := volume.NewHost(ctx, root)
	if err != nil {
		return nil, err
	}
	files := content.Config{Mounter: mounter, ConfigMaps: pods, Secrets: pods}
	plugins, err := volume.NewVolumePluginMgr(ctx, host, emptydir.New(emptydir.Config{Mounter: mounter}),
		local.New(local.Config{Mounter: mounter, Roots: disks}), hostpath.New(hostpath.Config{Mounter: mounter, Roots: disks}),
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files))
	if err != nil {
		return nil, err
	}
	return manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: pods, Claims: pods})
}
