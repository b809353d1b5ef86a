package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/examples/internal/container"
	"github.com/volumekit/volumekit/examples/internal/workdir"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A podVolume is a volume of the pod.
type podVolume struct {
	manifests.Volume
	dir     string // the name of its directory
	args    volume.MounterArgs
	mounter volume.Mounter           // set by plan; nil of a raw device
	mapper  volume.BlockVolumeMapper // set by plan; of a raw device
}

var (
	modePath    = field.NewPath("spec", "volumeMode")
	optionsPath = field.NewPath("spec", "mountOptions")
	localPath   = field.NewPath("spec", "local", "path")
)

// plan finds the plugin of the volume, and all errors that show before a mount.
func (v *podVolume) plan(mgr *volume.VolumePluginMgr, pod *v1.Pod) error {
	plugin, err := mgr.FindPluginBySpec(v.Spec)
	switch {
	case err != nil:
	case v.Spec.IsBlock():
		able, ok := volume.As[volume.BlockVolumePlugin](plugin)
		if !ok {
			return v.Problem(field.Forbidden(modePath, plugin.GetPluginName()+" has no block devices"))
		}
		v.mapper, err = able.NewBlockVolumeMapper(v.Spec, pod)
	default:
		err = v.planMount(mgr.Host(), plugin, pod)
	}
	if err != nil {
		return v.Problem(err)
	}
	return nil
}

// planMount creates the mounter of a volume that is mounted. It refuses mount options that the plugin
// does not support, and local paths that workdir.CheckReal refuses.
func (v *podVolume) planMount(host volume.VolumeHost, plugin volume.VolumePlugin, pod *v1.Pod) (err error) {
	if v.mounter, err = plugin.NewMounter(v.Spec, pod); err != nil {
		return err
	}
	able, ok := volume.As[volume.MountOptionsVolumePlugin](plugin)
	if len(v.Spec.MountOptions()) > 0 && (!ok || !able.SupportsMountOption()) {
		return field.Forbidden(optionsPath, plugin.GetPluginName()+" has no mount options")
	}
	if pv := v.Spec.PersistentVolume; pv != nil && pv.Spec.Local != nil {
		if reason := workdir.CheckReal(pv.Spec.Local.Path); reason != "" {
			return field.Invalid(localPath, pv.Spec.Local.Path, reason)
		}
	}
	if v.dir == v.Spec.Name() {
		return nil
	}
	// A view has a directory of its own, beside the directory to write to.
	path, err := host.PodVolumeDir(pod.UID, plugin.GetPluginName(), v.dir)
	v.mounter = podvolume.MounterAt(v.mounter, path)
	return err
}

// setUp mounts the volume, or maps the device, for the pod.
func (v *podVolume) setUp(ctx context.Context) (err error) {
	if v.mapper == nil {
		err = v.mounter.SetUp(ctx, v.args)
	} else {
		err = v.mapDevice(ctx)
	}
	if err != nil {
		return v.Problem(fmt.Errorf("set up: %w", v.addRemedy(err)))
	}
	return nil
}

func (v *podVolume) mapDevice(ctx context.Context) (err error) {
	var paths volume.BlockVolumePaths
	if paths.GlobalMapPath, err = v.mapper.GetGlobalMapPath(v.Spec); err != nil {
		return err
	}
	if paths.StagingPath, err = v.mapper.SetUpDevice(ctx, paths); err == nil {
		_, err = v.mapper.MapPodDevice(ctx, paths)
	}
	return err
}

const onlyRootGives = "only root gives files to the users and groups of a securityContext"

// addRemedy adds the remedy of a refusal.
func (v *podVolume) addRemedy(err error) error {
	refused := (*field.Error)(nil)
	switch isOwned := v.args.FsUser != nil || v.args.FsGroup != nil; {
	case isOwned && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EPERM)):
		return fmt.Errorf("%w (%s)", err, onlyRootGives)
	case errors.As(err, &refused) && strings.Contains(refused.Detail, "Allow.Dev "):
		hinted := *refused // Problem keeps of a field.Error nothing around it
		hinted.Detail += " (here: the flag -devices)"
		return &hinted
	}
	return err
}

// inContainer returns the volume as a container sees it.
func (v *podVolume) inContainer() container.Volume {
	seen := container.Volume{Name: v.Name, Spec: v.Spec, ReadOnly: v.args.ReadOnly || v.Spec.IsReadOnly()}
	if v.mapper == nil {
		seen.Path, seen.NotWritten = v.mounter.GetPath(), v.mounter.GetAttributes().ReadOnly
		return seen
	}
	dir, name := v.mapper.GetPodDeviceMapPath()
	seen.Path, seen.Device = filepath.Join(dir, name), true
	return seen
}
