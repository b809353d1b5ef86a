package volumekit_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/publicapi"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/util/metrics"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/util/subpath"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestEachFunctionGetsLongValues: each function with a context is called by TestErrorsAreShort,
// or listed in withoutLongValues.
func TestEachFunctionGetsLongValues(t *testing.T) {
	called := map[string]bool{}
	for name := range callsWith(t, t.TempDir(), strings.Repeat("x", 1000)) {
		name, _, _ = strings.Cut(name, " ")
		called[name] = true
	}
	var missing []string
	public := publicapi.WithContext(t, ".")
	for _, name := range slices.Compact(public) {
		if !called[name] && withoutLongValues[name] == "" {
			missing = append(missing, name)
		}
		if called[name] && withoutLongValues[name] != "" {
			t.Errorf("%s has a row and needs no reason", name)
		}
	}
	require.Empty(t, missing, "functions without a row of TestErrorsAreShort")
	for name := range withoutLongValues {
		require.Contains(t, public, name)
	}
}

const (
	noText  = "takes no text"
	noError = "returns no error that names a value"
	ofHost  = "takes no text but the paths of a host, whose constructor refuses a long path"
	checked = "its paths are those of a value whose constructor refuses a long text"
	inRun   = "runs in Manager.Run"
	ofWork  = "returns the error of the caller's function"
)

// withoutLongValues are functions with a context that TestErrorsAreShort does not call.
var withoutLongValues = map[string]string{
	"content.MapGetter.GetNodeAllocatable": noText,
	"content.Plugin.Init":                  ofHost,
	"disk.Device.CheckNode":                checked,
	"disk.Device.Claim":                    checked,
	"disk.Device.Explain":                  "is a step of disk.Disks.FormatAndMount",
	"disk.Device.Format":                   "is a step of disk.Disks.Format",
	"disk.Device.Grow":                     "is a step of disk.Disks.Grow",
	"disk.Device.InUse":                    checked,
	"disk.Device.IsBelowLoop":              checked,
	"disk.Device.Mount":                    "is a step of disk.Disks.FormatAndMount",
	"disk.Device.NeedsGrow":                "is a step of disk.Disks.NeedsGrow",
	"disk.Device.Prepare":                  "is a step of disk.Disks.FormatAndMount",
	"disk.Device.Probe":                    checked,
	"disk.Device.Repair":                   "is a step of disk.Disks.FormatAndMount",
	"disk.Device.Sizes":                    "is a step of disk.Disks.NeedsGrow",
	"disk.kernelHandle.InUse":              "is a step of disk.Device.InUse",
	"disk.systemPrograms.Run":              "is a step of disk.Disks",
	"emptydir.Plugin.Init":                 ofHost,
	"flexvolume.Plugin.Init":               ofHost,
	"flexvolume.unmounter.TearDown":        checked,
	"hostpath.Plugin.Init":                 "passes its roots to podvolume.NewHostRoots",
	"hostpath.unmounter.TearDown":          checked,
	"local.Plugin.Init":                    "passes its roots to podvolume.NewHostRoots",
	"local.ProvisioningPlugin.Init":        "passes its roots to podvolume.NewHostRoots",
	"local.blockUnmapper.UnmapPodDevice":   checked,
	"local.blockVolume.GetMetrics":         checked,
	"local.formatting.Mount":               "is a step of local.deviceMounter.MountDevice",
	"local.unmounter.TearDown":             checked,

	"manager.Manager.Run":                       "logs errors, and returns that of its start",
	"manager.Manager.WaitForAllPodsUnmount":     "names up to three pods, as WaitForAttachAndMount names volumes",
	"manager.Manager.WaitForUnmount":            "returns the errors of tear-downs",
	"manager.MemorySource.Pods":                 noText,
	"manager.configuredAttacher.Attach":         inRun,
	"manager.configuredAttacher.Detach":         inRun,
	"manager.noClaims.GetPersistentVolume":      noError,
	"manager.noClaims.GetPersistentVolumeClaim": noError,
	"manager.pluginAttacher.Attach":             inRun,
	"manager.pluginAttacher.Detach":             inRun,
	"manager.pluginAttacher.VolumesAreAttached": inRun,
	"manager/manifests.Source.Run":              "logs errors, and returns none",

	"mount.KnowsOption":           noError,
	"mount.Mounter.List":          noText,
	"mount.Mounter.UnmountRemove": noError,
	"mount.Mounter.Watch":         noText,
	"mount.Mounter.WatchMounts":   noText,

	"mount/mountutils.NewResizeFs": noError,
	"mount/mountutils.Peer.List":   noText,
	"mount/mountutils.WithContext": noError,
	"nfs.Plugin.Init":              ofHost,
	"nfs.ProvisioningPlugin.Init":  "names its configuration, which is of the program",
	"nfs.unmounter.TearDown":       checked,
	"recycler.Local.Wait":          noText,
	"recycler.Pod.Wait":            noText,

	"util/ctxend.Await":                 ofWork,
	"util/ctxend.Error":                 noText,
	"util/ctxend.Receive":               noError,
	"util/ctxend.Sleep":                 noText,
	"util/progress.Begin":               noError,
	"util/progress.Inherit":             noError,
	"util/progress.With":                noError,
	"util/keylock.Await":                ofWork,
	"util/keylock.Map.Lock":             noError,
	"util/loop.List":                    noText,
	"util/podvolume.Tmpfs":              noError,
	"util/podvolume.mounterAt.SetUp":    "calls the SetUpAt of a plugin",
	"util/podvolume.unmounter.TearDown": checked,
	"util/scrub.Root.Check":             noText,
	"util/scrub.Root.Empty":             noText,
	"volume.NewVolumePluginMgr":         "names its plugins, which are of the program",
	"volume.VolumePluginMgr.Register":   "names its plugins, which are of the program",
}

func addPods(t *testing.T, calls map[string]func(context.Context) error, dir, long string) {
	t.Helper()
	host, err := volume.NewHost(t.Context(), dir)
	require.NoError(t, err)
	m := mounttest.NewFake(mount.Config{})
	mounts, dirs := podvolume.NewMounts(host, m), podvolume.NewDirs(host, m, "example.com/x")
	notes := podvolume.NewNotes(mounts, "example.com/x")
	req := mount.Request{Source: dir}
	for where, at := range map[string]string{"": long, " below": dir + "/" + long} {
		for name, call := range map[string]func(context.Context) error{
			"Mounts.SetUp":    func(ctx context.Context) error { return mounts.SetUp(ctx, at, req) },
			"Mounts.SetUpNew": func(ctx context.Context) error { _, err := mounts.SetUpNew(ctx, at, req, func() {}); return err },
			"Mounts.Mount":    func(ctx context.Context) error { return mounts.Mount(ctx, at, req) },
			"Mounts.MountWith": func(ctx context.Context) error {
				return mounts.MountWith(ctx, at, func(context.Context) error { _, err := os.Stat(at); return err })
			},
			"Mounts.MountFile":       func(ctx context.Context) error { return mounts.MountFile(ctx, at, req) },
			"Mounts.Unmount":         func(ctx context.Context) error { return mounts.Unmount(ctx, at) },
			"Mounts.TearDown":        func(ctx context.Context) error { return mounts.TearDown(ctx, at) },
			"Mounts.CheckMounted":    func(ctx context.Context) error { return mounts.CheckMounted(ctx, at) },
			"Mounts.At":              func(ctx context.Context) error { _, _, err := mounts.At(ctx, at); return err },
			"Mounts.DeviceMountRefs": func(ctx context.Context) error { _, err := mounts.DeviceMountRefs(ctx, at); return err },
			"Mounts.GetMetrics":      func(ctx context.Context) error { _, err := mounts.GetMetrics(ctx, at); return err },
			"Mounts.GetCounted": func(ctx context.Context) error {
				_, err := mounts.GetCounted(ctx, at, podvolume.NewWalker())
				return err
			},
			"Mounts.Exclusively": func(ctx context.Context) error {
				return mounts.Exclusively(ctx, at, func(context.Context, string) error { _, err := os.Stat(at); return err })
			},
			"Mounts.IfIdle": func(ctx context.Context) error {
				return mounts.IfIdle(ctx, at, func(context.Context, string) error { _, err := os.Stat(at); return err })
			},
			"Dirs.SetUp":      func(ctx context.Context) error { return dirs.SetUp(ctx, at, podvolume.Dir{Mode: 0o700}) },
			"Dirs.TearDown":   func(ctx context.Context) error { return dirs.TearDown(ctx, at) },
			"Dirs.Find":       func(ctx context.Context) error { _, err := dirs.Find(ctx, at); return err },
			"Dirs.GetMetrics": func(ctx context.Context) error { _, err := dirs.GetMetrics(ctx, at); return err },
			"Notes.Write":     func(ctx context.Context) error { return notes.Write(ctx, at, []byte("{}")) },
			"Notes.Read":      func(ctx context.Context) error { _, err := notes.Read(ctx, at); return err },
			"Notes.Remove":    func(ctx context.Context) error { return notes.Remove(ctx, at) },
			"NewHostRoots":    func(ctx context.Context) error { _, err := podvolume.NewHostRoots(ctx, host, []string{at}); return err },
		} {
			calls["util/podvolume."+name+where] = call
		}
		calls["util/subpath.Detach pod"+where] = func(ctx context.Context) error { return subpath.Detach(ctx, m, at, "v", subpath.DetachOptions{}) }
	}
	calls["util/subpath.Detach volume"] = func(ctx context.Context) error { return subpath.Detach(ctx, m, dir, long, subpath.DetachOptions{}) }
}

// addOthers adds functions of several packages.
func addOthers(t *testing.T, calls map[string]func(context.Context) error, dir, long string) {
	t.Helper()
	m := mount.New(mount.Config{})
	getter := &content.MapGetter{}
	source := manager.NewMemorySource()
	data := t.TempDir()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	inPlace := hostpath.New(hostpath.Config{Mounter: m, Roots: []string{data}, InPlace: true})
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, inPlace)
	require.NoError(t, err)
	recycles, err := recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: plugins.FindPluginBySpec})
	require.NoError(t, err)
	spec := specsOf(data, long)["a hostPath below a root"]
	mounter := func() (volume.Mounter, error) {
		return inPlace.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	}
	of := func(ctx context.Context, call func(s *manifests.Source) error) error {
		s, err := manifests.New(ctx, manifests.Config{Dir: dir})
		if err == nil {
			err = call(s)
		}
		return err
	}
	for name, call := range map[string]func(context.Context) error{
		"mount.Mounter.FollowLinks": func(ctx context.Context) error { _, err := m.FollowLinks(ctx, long); return err },
		"mount.Mounter.MountID":     func(ctx context.Context) error { _, err := m.MountID(ctx, long); return err },
		"mount.Mounter.MountNew": func(ctx context.Context) error {
			_, err := m.MountNew(ctx, mount.Request{Source: long, Target: long}, mount.NewDirectory{Perm: 0o700})
			return err
		},
		"util/fsusage.Walker.Walk": func(ctx context.Context) error { _, err := (&fsusage.Walker{}).Walk(ctx, long); return err },
		"util/fsusage.Info":        func(ctx context.Context) error { _, _, _, _, _, _, err := fsusage.Info(ctx, long); return err },
		"util/metrics.Info":        func(ctx context.Context) error { _, _, _, _, _, _, err := metrics.Info(ctx, long); return err },
		"util/loop.Attach": func(ctx context.Context) error {
			_, err := loop.Attach(ctx, loop.Config{File: os.NewFile(1<<20, long)})
			return err
		},
		"util/safepath.Open": func(ctx context.Context) error {
			fd, err := safepath.Open(ctx, unix.AT_FDCWD, long, 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		},
		"util/scrub.Root.DeleteTrash": func(ctx context.Context) error {
			root, err := scrub.Open(ctx, dir)
			if err != nil {
				return err
			}
			_, err = root.DeleteTrash(ctx, scrub.Options{Trash: long})
			return errors.Join(err, root.Close())
		},
		"hostpath.inPlace.SetUp": func(ctx context.Context) error {
			up, err := mounter()
			if err == nil {
				err = up.SetUp(ctx, volume.MounterArgs{})
			}
			return err
		},
		"hostpath.inPlace.GetMetrics": func(ctx context.Context) error {
			up, err := mounter()
			if err == nil {
				_, err = up.(volume.MetricsProvider).GetMetrics(ctx)
			}
			return err
		},
		"recycler.Local.Recycle": func(ctx context.Context) error { return recycles.Recycle(ctx, long, spec) },
		"volume.VolumePluginMgr.FindAttachablePluginBySpec": func(ctx context.Context) error {
			_, _, err := plugins.FindAttachablePluginBySpec(ctx, spec)
			return err
		},
		"volume.VolumePluginMgr.FindDeviceMountablePluginBySpec": func(ctx context.Context) error {
			_, _, err := plugins.FindDeviceMountablePluginBySpec(ctx, spec)
			return err
		},
		"content.MapGetter.GetConfigMap": func(ctx context.Context) error { _, err := getter.GetConfigMap(ctx, long, long); return err },
		"content.MapGetter.GetServiceAccountToken": func(ctx context.Context) error {
			_, err := getter.GetServiceAccountToken(ctx, longPod(long), &v1.ServiceAccountTokenProjection{Audience: long, Path: long})
			return err
		},
		"content.MapGetter.GetTrustBundle": func(ctx context.Context) error {
			_, err := getter.GetTrustBundle(ctx, &v1.ClusterTrustBundleProjection{Name: &long})
			return err
		},
		"manager.MemorySource.Pod": func(ctx context.Context) error { _, err := source.Pod(ctx, types.UID(long)); return err },
		"manager/manifests.Source.Pod": func(ctx context.Context) error {
			return of(ctx, func(s *manifests.Source) error { _, err := s.Pod(ctx, types.UID(long)); return err })
		},
		"manager/manifests.Source.GetConfigMap": func(ctx context.Context) error {
			return of(ctx, func(s *manifests.Source) error { _, err := s.GetConfigMap(ctx, long, long); return err })
		},
		"manager/manifests.Source.GetPersistentVolume": func(ctx context.Context) error {
			return of(ctx, func(s *manifests.Source) error { _, err := s.GetPersistentVolume(ctx, long); return err })
		},
	} {
		calls[name] = call
	}
}

func addDisks(calls map[string]func(context.Context) error, long string) {
	disks := disk.New(disk.Config{Mounter: mounttest.NewFake(mount.Config{})})
	grow := disk.GrowRequest{Device: long, Target: long}
	for name, call := range map[string]func(context.Context) error{
		"Format": func(ctx context.Context) error { return disks.Format(ctx, disk.FormatRequest{Device: long}) },
		"Format type": func(ctx context.Context) error {
			return disks.Format(ctx, disk.FormatRequest{Device: "/dev/null", FSType: long})
		},
		"Format option": func(ctx context.Context) error {
			return disks.Format(ctx, disk.FormatRequest{Device: "/dev/null", Options: []string{long}})
		},
		"Check": func(ctx context.Context) error {
			_, err := disks.Check(ctx, disk.CheckRequest{Device: long})
			return err
		},
		"Probe":    func(ctx context.Context) error { _, err := disks.Probe(ctx, long); return err },
		"Identify": func(ctx context.Context) error { _, err := disks.Identify(ctx, long); return err },
		"Use": func(ctx context.Context) error {
			return disks.Use(ctx, long, func(context.Context, *disk.Device) error { return nil })
		},
		"Grow":      func(ctx context.Context) error { _, err := disks.Grow(ctx, grow); return err },
		"NeedsGrow": func(ctx context.Context) error { _, err := disks.NeedsGrow(ctx, grow); return err },
		"FormatAndMount": func(ctx context.Context) error {
			return disks.FormatAndMount(ctx, disk.MountRequest{Device: long, Target: long})
		},
	} {
		calls["disk.Disks."+name] = call
	}
}

// addBlocks adds the methods of package local about devices.
func addBlocks(t *testing.T, calls map[string]func(context.Context) error, long string) {
	t.Helper()
	data := t.TempDir()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugin := local.New(local.Config{Mounter: mounttest.NewFake(mount.Config{}), Roots: []string{data}})
	require.NoError(t, plugin.Init(t.Context(), host))
	block := v1.PersistentVolumeBlock
	spec := specsOf(data, long)["a local below a root"]
	of := spec.PersistentVolume.DeepCopy()
	of.Spec.VolumeMode = &block
	paths := volume.BlockVolumePaths{DevicePath: long, GlobalMapPath: long, StagingPath: long}
	mapper := func() (volume.BlockVolumeMapper, error) {
		return plugin.NewBlockVolumeMapper(volume.NewSpecFromPersistentVolume(of, false), &v1.Pod{})
	}
	unmapper := func() (volume.BlockVolumeUnmapper, error) { return plugin.NewBlockVolumeUnmapper("v", types.UID("1")) }
	for name, call := range map[string]func(context.Context) error{
		"Plugin.CanDeviceMount":     func(ctx context.Context) error { _, err := plugin.CanDeviceMount(ctx, spec); return err },
		"Plugin.Forget":             func(ctx context.Context) error { return plugin.Forget(ctx, long) },
		"Plugin.GetDeviceMountRefs": func(ctx context.Context) error { _, err := plugin.GetDeviceMountRefs(ctx, long); return err },
		"Plugin.ConstructBlockVolumeSpec": func(ctx context.Context) error {
			_, err := plugin.ConstructBlockVolumeSpec(ctx, types.UID(long), long, long)
			return err
		},
		"Plugin.NodeExpand": func(ctx context.Context) error {
			_, err := plugin.NodeExpand(ctx, volume.NodeResizeOptions{Spec: spec, VolumePath: long, NewSize: resource.MustParse("1Gi")})
			return err
		},
		"deviceMounter.MountDevice": func(ctx context.Context) error {
			m, err := plugin.NewDeviceMounter()
			if err == nil {
				err = m.MountDevice(ctx, spec, long, volume.DeviceMounterArgs{})
			}
			return err
		},
		"deviceMounter.UnmountDevice": func(ctx context.Context) error {
			u, err := plugin.NewDeviceUnmounter()
			if err == nil {
				err = u.UnmountDevice(ctx, long)
			}
			return err
		},
		"blockMapper.SetUpDevice": func(ctx context.Context) error {
			m, err := mapper()
			if err == nil {
				_, err = m.SetUpDevice(ctx, paths)
			}
			return err
		},
		"blockMapper.MapPodDevice": func(ctx context.Context) error {
			m, err := mapper()
			if err == nil {
				_, err = m.MapPodDevice(ctx, paths)
			}
			return err
		},
		"blockUnmapper.TearDownDevice": func(ctx context.Context) error {
			u, err := unmapper()
			if err == nil {
				err = u.TearDownDevice(ctx, paths)
			}
			return err
		},
	} {
		calls["local."+name] = call
	}
}
