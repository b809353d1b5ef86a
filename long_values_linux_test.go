package volumekit_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/docker"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/flexvolume"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/util/metrics"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/util/subpath"
	"github.com/volumekit/volumekit/volume"
)

// longest is the largest length of an error's text.
const longest = 4096

// These calls wait until their time ends.
const (
	ofManager        = "manager.Manager.WaitForAttachAndMount"
	ofManagerVolumes = "manager.Manager.WaitForVolumes"
)

// longValues are values of 1 MiB: a name, a name as a path, many names as a path, and many
// names from the second on of a path of which the first exists. Short tests, which run with the
// race detector, have values of 64 KiB.
func longValues(dir string) map[string]string {
	size := 1 << 20
	if testing.Short() {
		size = 1 << 16
	}
	return map[string]string{
		"name": strings.Repeat("x", size),
		"path": "/" + strings.Repeat("x", size),
		"deep": strings.Repeat("/x", size/2),
		"in":   dir + strings.Repeat("/x", size/2),
		"dots": strings.Repeat("../", size/4),
	}
}

// TestErrorsAreShort passes long values to every function with a text. No error is long, also if the context has
// ended.
func TestErrorsAreShort(t *testing.T) {
	dir := t.TempDir()
	ended, end := context.WithCancel(t.Context())
	end()
	for kind, long := range longValues(dir) {
		for name, call := range callsWith(t, dir, long) {
			isEndless := name == ofManager || name == ofManagerVolumes
			limit := time.Minute // for a call that ends by itself, on a busy machine
			if isEndless {
				limit = 5 * time.Second
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			err := call(ctx)
			cancel()
			if errors.Is(err, context.DeadlineExceeded) && !isEndless && !testing.Short() {
				t.Errorf("%s with a long %s takes long", name, kind)
			}
			for _, err := range []error{err, call(ended)} {
				if err != nil && len(err.Error()) > longest {
					t.Errorf("%s with a long %s: %d bytes: %.200s", name, kind, len(err.Error()), err)
				}
			}
		}
	}
}

func callsWith(t *testing.T, dir, long string) map[string]func(context.Context) error {
	t.Helper()
	calls := map[string]func(context.Context) error{}
	for kind, m := range map[string]mount.Interface{
		"mount.Mounter": mount.New(mount.Config{}), "mounttest.Fake": mounttest.NewFake(mount.Config{}),
		"mount/mountutils.Peer": mountutils.From(mountutils.New(mounttest.NewFake(mount.Config{}))),
	} {
		addMounter(calls, kind, m, dir, long)
	}
	addAdapter(calls, dir, long)
	addPods(t, calls, dir, long)
	addDisks(calls, long)
	addOthers(t, calls, dir, long)
	addBlocks(t, calls, long)
	addLeaves(calls, dir, long)
	addNames(calls, long)
	addPlugins(t, calls, long)
	addFlexvolume(t, calls, dir, long)
	addProvisioners(t, calls, long)
	addControllers(t, calls, dir, long)
	return calls
}

func addMounter(calls map[string]func(context.Context) error, kind string, m mount.Interface, dir, long string) {
	ask := func(name string, call func(context.Context) error) { calls[kind+"."+name] = call }
	below := func(name string, call func(context.Context) error) { calls[name+" by "+kind] = call }
	for name, req := range map[string]mount.Request{
		"source": {Source: long, Target: dir}, "target": {Source: dir, Target: long},
		"type": {Source: "x", Target: dir, FSType: long}, "option": {Source: dir, Target: dir, Options: []string{long}},
		"device": {Source: long, Target: dir, FSType: "ext4"},
		"data":   {Source: "x", Target: dir, FSType: "tmpfs", Options: []string{"size=" + strings.ReplaceAll(long, "/", "x")}},
		"nfs":    {Source: long + ":/x", Target: dir, FSType: "nfs"}, "cifs": {Source: long, Target: dir, FSType: "cifs"},
		"remount": {Target: long, Remount: true, Options: []string{"ro"}},
	} {
		ask("Mount "+name, func(ctx context.Context) error { return m.Mount(ctx, req) })
	}
	ask("Unmount", func(ctx context.Context) error { return m.Unmount(ctx, long) })
	ask("UnmountTree", func(ctx context.Context) error { return m.UnmountTree(ctx, long) })
	ask("IsMountPoint", func(ctx context.Context) error { _, err := m.IsMountPoint(ctx, long); return err })
	ask("MountRefs", func(ctx context.Context) error { _, err := m.MountRefs(ctx, long); return err })
	ask("MountsFrom", func(ctx context.Context) error { _, err := m.MountsFrom(ctx, long); return err })
	ask("Resolve", func(ctx context.Context) error { _, err := m.Resolve(ctx, long); return err })
	if isolator, ok := mount.As[mount.Isolator](m); ok {
		ask("Isolate", func(ctx context.Context) error { return isolator.Isolate(ctx, long) })
	}
	below("util.UnmountMountPoint", func(ctx context.Context) error { return util.UnmountMountPoint(ctx, m, long) })
	below("util.UnmountPath", func(ctx context.Context) error { return util.UnmountPath(ctx, m, long) })
	for name, req := range map[string]subpath.Request{
		"pod":    {PodDir: long, Volume: "v", Container: "c", VolumeDir: dir, Path: "x"},
		"volume": {PodDir: dir, Volume: long, Container: "c", VolumeDir: dir, Path: "x"},
		"dir":    {PodDir: dir, Volume: "v", Container: "c", VolumeDir: long, Path: "x"},
		"path":   {PodDir: dir, Volume: "v", Container: "c", VolumeDir: dir, Path: long},
		"create": {PodDir: dir, Volume: "v", Container: long, VolumeDir: dir, Path: strings.TrimLeft(long, "/"), Create: true},
	} {
		below("util/subpath.Bind "+name, func(ctx context.Context) error { _, err := subpath.Bind(ctx, m, req); return err })
	}
	below("util/subpath.Cleanup", func(ctx context.Context) error { return subpath.Cleanup(ctx, m, long, "v") })
	below("util/subpath.Cleanup volume", func(ctx context.Context) error { return subpath.Cleanup(ctx, m, dir, long) })
}

func addAdapter(calls map[string]func(context.Context) error, dir, long string) {
	m := mountutils.New(mount.New(mount.Config{}))
	calls["mount/mountutils.Mounter.Mount"] = func(context.Context) error { return m.Mount(long, dir, "", []string{"bind"}) }
	calls["mount/mountutils.Mounter.Mount target"] = func(context.Context) error { return m.Mount(dir, long, "", []string{"bind"}) }
	calls["mount/mountutils.Mounter.Mount option"] = func(context.Context) error { return m.Mount(dir, dir, "tmpfs", []string{long}) }
	calls["mount/mountutils.Mounter.MountSensitive"] = func(context.Context) error {
		return m.MountSensitive(dir, dir, "tmpfs", nil, []string{"x=" + long})
	}
	calls["mount/mountutils.Mounter.flag"] = func(context.Context) error {
		return m.MountSensitiveWithoutSystemdWithMountFlags(dir, dir, "tmpfs", nil, nil, []string{long})
	}
	calls["mount/mountutils.Mounter.Unmount"] = func(context.Context) error { return m.Unmount(long) }
	calls["mount/mountutils.Mounter.IsMountPoint"] = func(context.Context) error { _, err := m.IsMountPoint(long); return err }
	calls["mount/mountutils.Mounter.IsLikelyNotMountPoint"] = func(context.Context) error { _, err := m.IsLikelyNotMountPoint(long); return err }
	calls["mount/mountutils.Mounter.GetMountRefs"] = func(context.Context) error { _, err := m.GetMountRefs(long); return err }
}

func addLeaves(calls map[string]func(context.Context) error, dir, long string) {
	files := map[string]atomicdir.File{"file": {}}
	for name, call := range map[string]func(context.Context) error{
		"util/metrics.providerFunc.GetMetrics":                    func(ctx context.Context) error { _, err := metrics.NewMetricsStatFS(long).GetMetrics(ctx); return err },
		"util/metrics.providerFunc.GetMetrics of NewMetricsDu":    func(ctx context.Context) error { _, err := metrics.NewMetricsDu(long, nil).GetMetrics(ctx); return err },
		"util/metrics.providerFunc.GetMetrics of NewMetricsBlock": func(ctx context.Context) error { _, err := metrics.NewMetricsBlock(long).GetMetrics(ctx); return err },
		"util/fsusage.Stat":      func(ctx context.Context) error { _, err := fsusage.Stat(ctx, long); return err },
		"util/fsusage.Walk":      func(ctx context.Context) error { _, err := (&fsusage.Walker{}).Walk(ctx, long); return err },
		"util/fsusage.BlockSize": func(ctx context.Context) error { _, err := fsusage.BlockSize(ctx, long); return err },
		"util/fsusage.Stat ended": func(ctx context.Context) error {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			_, err := fsusage.Stat(ended, long)
			return err
		},
		"util/loop.AttachFileDevice": func(ctx context.Context) error { _, err := loop.AttachFileDevice(ctx, long, loop.Config{}); return err },
		"util/loop.GetLoopDevice":    func(ctx context.Context) error { _, err := loop.GetLoopDevice(ctx, long); return err },
		"util/loop.DetachFileDevice": func(ctx context.Context) error { return loop.DetachFileDevice(ctx, long) },
		"util/loop.Status":           func(ctx context.Context) error { _, err := loop.Status(ctx, long); return err },
		"util/loop.Named":            func(ctx context.Context) error { _, err := loop.Named(ctx, long); return err },
		"util/loop.Detach":           func(ctx context.Context) error { return loop.Detach(ctx, loop.Device{Path: long}) },
		"util/loop.Resize":           func(ctx context.Context) error { return loop.Resize(ctx, loop.Device{Path: long}) },
		"util/ownership.Apply":       func(ctx context.Context) error { _, err := ownership.Apply(ctx, long, ownership.Options{}); return err },
		"util/scrub.Open":            func(ctx context.Context) error { _, err := scrub.Open(ctx, long); return err },
		"util/subpath.Volumes":       func(ctx context.Context) error { _, err := subpath.Volumes(ctx, long); return err },
		"util/safepath.CreateFile":   func(ctx context.Context) error { _, err := safepath.CreateFile(ctx, long, "a", 0o600); return err },
		"util/safepath.CreateFile name": func(ctx context.Context) error {
			_, err := safepath.CreateFile(ctx, dir, dir+"/"+long, 0o600)
			return err
		},
		"util/safepath.MkdirAll":      func(ctx context.Context) error { _, err := safepath.MkdirAll(ctx, long, "a", 0o600); return err },
		"util/safepath.MkdirAll name": func(ctx context.Context) error { _, err := safepath.MkdirAll(ctx, dir, long, 0o600); return err },
		"util/safepath.OpenParent": func(ctx context.Context) error {
			fd, _, err := safepath.OpenParent(ctx, long)
			if err == nil {
				_ = os.NewFile(uintptr(fd), "").Close()
			}
			return err
		},
		"util/safepath.RemoveEmptyFile": func(ctx context.Context) error { return safepath.RemoveEmptyFile(ctx, long) },
		"util/safepath.RemoveMade":      func(ctx context.Context) error { return safepath.RemoveMade(ctx, long, long) },
		"util/safepath.Rmdir":           func(ctx context.Context) error { return safepath.Rmdir(ctx, long) },
		"util/atomicdir.Write": func(ctx context.Context) error {
			_, err := atomicdir.Write(ctx, long, files, atomicdir.Options{})
			return err
		},
		"util/atomicdir.Write name": func(ctx context.Context) error {
			_, err := atomicdir.Write(ctx, dir, map[string]atomicdir.File{long: {}}, atomicdir.Options{})
			return err
		},
		"util/atomicdir.CheckName":       func(context.Context) error { return atomicdir.CheckName(long) },
		"util/atomicdir.CheckMountPoint": func(context.Context) error { return atomicdir.CheckMountPoint(long) },
		"util/quantity.CheckOf": func(context.Context) error {
			return quantity.CheckOf("size", &resource.Quantity{Format: resource.Format(long)})
		},
		"util/podvolume.RemoveNoteFiles": func(ctx context.Context) error { return podvolume.RemoveNoteFiles(ctx, long) },
		"docker.Listen":                  func(ctx context.Context) error { _, err := docker.Listen(ctx, long); return err },
		"docker.Serve": func(ctx context.Context) error {
			listener, err := net.Listen("unix", "@"+rand.Text())
			if err != nil {
				return err
			}
			return docker.Serve(ctx, listener, docker.Config{Name: long})
		},
		"util.RemoveEmptyParents":     func(ctx context.Context) error { return util.RemoveEmptyParents(ctx, dir, long) },
		"util/podvolume.ResolveLinks": func(ctx context.Context) error { _, err := podvolume.ResolveLinks(ctx, long); return err },
	} {
		calls[name] = call
	}
}

func addNames(calls map[string]func(context.Context) error, long string) {
	for name, call := range map[string]func(context.Context) error{
		"volume.EscapeQualifiedName":   func(context.Context) error { _, err := volume.EscapeQualifiedName(long); return err },
		"volume.UnescapeQualifiedName": func(context.Context) error { _, err := volume.UnescapeQualifiedName(long); return err },
		"volume.ValidatePathComponent": func(context.Context) error { return volume.ValidatePathComponent(field.NewPath("x"), long) },
		"util.SplitUniqueName":         func(context.Context) error { _, _, err := util.SplitUniqueName(v1.UniqueVolumeName(long)); return err },
		"volume.NewHost":               func(ctx context.Context) error { _, err := volume.NewHost(ctx, long); return err },
		"util.CheckNodeAffinity": func(context.Context) error {
			term := v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: long, Operator: v1.NodeSelectorOperator(long), Values: []string{long}}}}
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: long}}
			pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{term}}}
			return util.CheckNodeAffinity(pv, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: long}})
		},
		"util.MatchVolume": func(context.Context) error {
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: long}}
			pv.Spec.StorageClassName = long
			return util.MatchVolume(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: long, Namespace: long}}, pv, nil)
		},
		"util.CheckVolumeModesMatch": func(context.Context) error {
			mode := v1.PersistentVolumeMode(long)
			pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: long}}
			pv.Spec.VolumeMode = &mode
			return util.CheckVolumeModesMatch(&v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: long}}, pv)
		},
	} {
		calls[name] = call
	}
}

// longPod returns a pod whose texts are all long, except its UID.
func longPod(long string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: long, Namespace: long, UID: "1", Labels: map[string]string{long: long}, Annotations: map[string]string{long: long}}}
	pod.Spec.ServiceAccountName, pod.Spec.NodeName = long, long
	pod.Spec.Containers = []v1.Container{{Name: long, VolumeMounts: []v1.VolumeMount{{Name: "v", MountPath: long, SubPath: long}}}}
	return pod
}

func addPlugins(t *testing.T, calls map[string]func(context.Context) error, long string) {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	data := t.TempDir()
	m := mounttest.NewFake(mount.Config{})
	getter := (&content.MapGetter{}).Config()
	getter.Mounter = m
	for name, plugin := range map[string]volume.VolumePlugin{
		"local": local.New(local.Config{Mounter: m, Roots: []string{data}}), "nfs": nfs.New(nfs.Config{Mounter: m}),
		"emptydir": emptydir.New(emptydir.Config{Mounter: m}), "hostpath": hostpath.New(hostpath.Config{Mounter: m, Roots: []string{data}}),
		"content configmap": content.NewConfigMap(getter), "content secret": content.NewSecret(getter),
		"flexvolume":       flexvolume.New(flexConfig(t, m)),
		"content downward": content.NewDownwardAPI(getter), "content projected": content.NewProjected(getter),
	} {
		_, err := volume.NewVolumePluginMgr(t.Context(), host, plugin)
		require.NoError(t, err)
		addPlugin(calls, name, plugin, data, long)
	}
}

// addPlugin adds the methods of a plugin of a package, which the name begins with.
func addPlugin(calls map[string]func(context.Context) error, name string, plugin volume.VolumePlugin, data, long string) {
	room, kind, _ := strings.Cut(name, " ")
	add := func(method, what string, call func(ctx context.Context) error) {
		ofRoom := room
		if (room == "content" || room == "emptydir") && !strings.HasPrefix(method, "Plugin.") { // the frame of podvolume
			ofRoom, method, kind = "util/podvolume", strings.Replace(method, "podVolume", "frame", 1), name
		}
		calls[strings.TrimSpace(ofRoom+"."+method+" "+kind+" "+what)] = call
	}
	for what, spec := range specsOf(data, long) {
		if !plugin.CanSupport(spec) {
			continue
		}
		for pods, pod := range map[string]*v1.Pod{"": {ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: "1"}}, " of a long pod": longPod(long)} {
			for labels, args := range map[string]volume.MounterArgs{"": {}, " with a label": {SELinuxLabel: long}} {
				add("mounter.SetUp", what+pods+labels, func(ctx context.Context) error {
					up, err := plugin.NewMounter(spec, pod)
					if err != nil {
						return err
					}
					return up.SetUp(ctx, args)
				})
			}
			add("mounter.SetUpAt", what+pods, func(ctx context.Context) error {
				up, err := plugin.NewMounter(spec, pod)
				if err != nil {
					return err
				}
				return up.SetUpAt(ctx, path.Dir(up.GetPath())+"/"+long, volume.MounterArgs{})
			})
			add("podVolume.GetMetrics", what+pods, func(ctx context.Context) error {
				up, err := plugin.NewMounter(spec, pod)
				if err != nil {
					return err
				}
				_, err = up.(volume.MetricsProvider).GetMetrics(ctx)
				return err
			})
		}
		add("Plugin.GetVolumeName", what, func(context.Context) error { _, err := plugin.GetVolumeName(spec); return err })
		if recyclable, ok := plugin.(volume.RecyclableVolumePlugin); ok {
			add("Plugin.Recycle", what, func(ctx context.Context) error { return recyclable.Recycle(ctx, long, spec) })
		}
	}
	add("Plugin.NewUnmounter", "", func(context.Context) error { _, err := plugin.NewUnmounter(long, types.UID(long)); return err })
	add("unmounter.TearDownAt", "", func(ctx context.Context) error {
		down, err := plugin.NewUnmounter("v", "1")
		if err != nil {
			return err
		}
		return down.TearDownAt(ctx, long)
	})
	add("Plugin.ConstructVolumeSpec", "", func(ctx context.Context) error { _, err := plugin.ConstructVolumeSpec(ctx, long, long); return err })
	add("Plugin.ConstructVolumeSpec", "at", func(ctx context.Context) error { _, err := plugin.ConstructVolumeSpec(ctx, "v", long); return err })
}

// specsOf returns volumes of each kind, with a long text in one field each.
func specsOf(data, long string) map[string]*volume.Spec {
	specs := map[string]*volume.Spec{}
	add := func(name string, source v1.VolumeSource) {
		specs[name] = volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: source})
	}
	addPV := func(name string, source v1.PersistentVolumeSource, options ...string) {
		pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
		pv.Spec.PersistentVolumeSource, pv.Spec.MountOptions = source, options
		specs[name] = volume.NewSpecFromPersistentVolume(pv, false)
	}
	size := resource.MustParse("1Mi")
	object := v1.LocalObjectReference{Name: long}
	items := []v1.KeyToPath{{Key: long, Path: long}}
	add("an emptyDir", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMedium(long)}})
	add("an emptyDir in memory", v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: &size}})
	add("a hostPath", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: long}})
	add("a hostPath below a root", v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: data + "/" + long}})
	add("a configMap", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: object}})
	add("a configMap with items", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "a"}, Items: items}})
	add("a configMap of a name", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "a"}}})
	add("a secret", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: long}})
	add("a secret of a name", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "a"}})
	add("a downwardAPI", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{Path: "a", FieldRef: &v1.ObjectFieldSelector{FieldPath: long}}}}})
	add("a downwardAPI of a container", v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{Path: "a", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: long, Resource: long}}}}})
	add("a token", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "a", Audience: long}}}}})
	add("a trust bundle", v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "a", Name: &long}}}}})
	add("an nfs", v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: long, Path: "/"}})
	add("an nfs path", v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: long}})
	add("a Flexvolume", v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: longDriver, Options: map[string]string{"a": long}}})
	add("a Flexvolume with a key", v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: longDriver, Options: map[string]string{long: "a"}}})
	add("a Flexvolume with a type", v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: longDriver, FSType: long}})
	add("a Flexvolume with a Secret", v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: longDriver, SecretRef: &object}})
	addPV("a Flexvolume with mount options", v1.PersistentVolumeSource{FlexVolume: &v1.FlexPersistentVolumeSource{Driver: longDriver}}, long)
	addPV("a local", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: long}})
	addPV("a local below a root", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: data + "/" + long, FSType: &long}})
	addPV("a local with options", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: data}}, long)
	addPV("an nfs with options", v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "s", Path: "/"}}, long)
	return specs
}

func addControllers(t *testing.T, calls map[string]func(context.Context) error, dir, long string) {
	t.Helper()
	source := manager.NewMemorySource()
	for name, call := range map[string]func(context.Context) error{
		"manager.MemorySource.SetPod":              func(context.Context) error { return source.SetPod(longPod(long)) },
		"manager.MemorySource.GetPersistentVolume": func(ctx context.Context) error { _, err := source.GetPersistentVolume(ctx, long); return err },
		"manager.MemorySource.GetPersistentVolumeClaim": func(ctx context.Context) error {
			_, err := source.GetPersistentVolumeClaim(ctx, long, long)
			return err
		},
		"manager/manifests.New": func(ctx context.Context) error {
			_, err := manifests.New(ctx, manifests.Config{Dir: long, Keep: long})
			return err
		},
		"manager/manifests.Source.Pods": func(ctx context.Context) error {
			s, err := manifests.New(ctx, manifests.Config{Dir: long})
			if err == nil {
				_, err = s.Pods(ctx)
			}
			return err
		},
		"manager/manifests.Source.GetSecret": func(ctx context.Context) error {
			s, err := manifests.New(ctx, manifests.Config{Dir: dir})
			if err == nil {
				_, err = s.GetSecret(ctx, long, long)
			}
			return err
		},
		"manager/manifests.Source.GetPersistentVolumeClaim": func(ctx context.Context) error {
			s, err := manifests.New(ctx, manifests.Config{Dir: dir})
			if err == nil {
				_, err = s.GetPersistentVolumeClaim(ctx, long, long)
			}
			return err
		},
		"recycler.NewPod": func(context.Context) error {
			_, err := recycler.NewPod(recycler.PodConfig{Client: recyclertest.NewCluster(recyclertest.Config{}), Namespace: long, Owner: long})
			return err
		},
		"recycler.Pod.Recycle": func(ctx context.Context) error {
			p, err := recycler.NewPod(recycler.PodConfig{Client: recyclertest.NewCluster(recyclertest.Config{})})
			if err == nil {
				err = p.Recycle(ctx, long, specsOf(dir, long)["an nfs with options"])
			}
			return err
		},
		"content.MapGetter.GetSecret": func(ctx context.Context) error {
			_, err := (&content.MapGetter{}).GetSecret(ctx, long, long)
			return err
		},
		"recyclertest.Cluster.Get": func(ctx context.Context) error {
			_, err := recyclertest.NewCluster(recyclertest.Config{}).Get(ctx, long, long)
			return err
		},
	} {
		calls[name] = call
	}
	calls[ofManager] = func(ctx context.Context) error {
		return waitFor(ctx, t, dir, long, (*manager.Manager).WaitForAttachAndMount)
	}
	calls[ofManagerVolumes] = func(ctx context.Context) error {
		return waitFor(ctx, t, dir, long, func(m *manager.Manager, ctx context.Context, pod *v1.Pod) error {
			return m.WaitForVolumes(ctx, pod, manager.WaitOptions{})
		})
	}
}

// waitFor sets up a claim of a pod with long texts by a manager.
func waitFor(ctx context.Context, t *testing.T, dir, long string, wait func(*manager.Manager, context.Context, *v1.Pod) error) error {
	host, err := volume.NewHost(t.Context(), dir)
	require.NoError(t, err)
	m := mounttest.NewFake(mount.Config{})
	plugins, err := volume.NewVolumePluginMgr(t.Context(), host, emptydir.New(emptydir.Config{Mounter: m}))
	require.NoError(t, err)
	source := manager.NewMemorySource()
	volumes, err := manager.New(manager.Config{Plugins: plugins, Mounter: m, Pods: source, Claims: source})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() { defer close(done); _ = volumes.Run(ctx) }()
	pod := longPod(long)
	pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: long}}}}
	if err := source.SetPod(pod); err != nil {
		return err
	}
	err = wait(volumes, ctx, pod)
	cancel()
	<-done
	return fmt.Errorf("wait: %w", err)
}
