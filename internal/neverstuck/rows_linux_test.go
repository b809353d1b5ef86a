package neverstuck

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/docker"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/manager/manifests"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/recycler/recyclertest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/fsusage"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/util/metrics"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/util/subpath"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	peer "k8s.io/mount-utils"
)

// inner are the methods that no program can call, with the reason.
var inner = map[string]string{
	"disk.kernelHandle.InUse":                   "a step of disk.Device.InUse",
	"disk.systemPrograms.Run":                   "a step of disk.Disks, which leaves without it",
	"local.formatting.Mount":                    "a step of MountDevice",
	"manager.configuredAttacher.Attach":         "calls the Attacher of Config in an operation of Run",
	"manager.configuredAttacher.Detach":         "calls the Attacher of Config in an operation of Run",
	"manager.noClaims.GetPersistentVolume":      "returns an error at once",
	"manager.noClaims.GetPersistentVolumeClaim": "returns an error at once",
	"manager.pluginAttacher.Attach":             "calls the plugin in an operation of Run",
	"manager.pluginAttacher.Detach":             "calls the plugin in an operation of Run",
	"manager.pluginAttacher.VolumesAreAttached": "calls the plugin in an operation of Run",
	"util/podvolume.mounterAt.SetUp":            "calls the SetUpAt of a plugin",
}

// unbounded are the functions whose every call may leave a request behind, with the reason.
var unbounded = map[string]string{
	"util/ctxend.Await": "its callers hold a lock",
}

func rows() map[string]row {
	all := map[string]row{}
	for _, some := range []map[string]row{
		rowsOfPlugins(), rowsOfDevices(), rowsOfManager(), rowsOfMount(), rowsOfPeer(), rowsOfRecycler(),
		rowsOfUtil(), rowsOfPods(), rowsOfLeaves(), rowsOfSafepath(), rowsOfLoop(), rowsOfVolume(), rowsOfDisk(),
		rowsOfLocalClaims(), rowsOfFlexvolume(),
	} {
		maps.Copy(all, some)
	}
	return all
}

// none returns a row whose call needs no preparation.
func none(call func(ctx context.Context, r *rig) error) row {
	return func(r *rig) func(context.Context) error {
		return func(ctx context.Context) error { return call(ctx, r) }
	}
}

// rowsOfPlugins returns the rows of each plugin.
func rowsOfPlugins() map[string]row {
	all := map[string]row{}
	for _, plugin := range []string{"local", "hostpath", "emptydir", "content", "nfs", "flexvolume"} {
		all[plugin+".Plugin.Init"] = none(func(ctx context.Context, r *rig) error {
			p, err := r.mgr.FindPluginBySpec(r.specs()[plugin])
			require.NoError(r, err)
			return p.Init(ctx, r.host)
		})
		all[plugin+".Plugin.ConstructVolumeSpec"] = func(r *rig) func(context.Context) error {
			path := r.up(plugin).GetPath()
			p, err := r.mgr.FindPluginBySpec(r.specs()[plugin])
			require.NoError(r, err)
			return func(ctx context.Context) error {
				_, err := p.ConstructVolumeSpec(ctx, "vol", path)
				return err
			}
		}
		all[ofVolume(plugin, "podVolume.GetMetrics")] = func(r *rig) func(context.Context) error {
			mounter := r.up(plugin)
			return func(ctx context.Context) error {
				_, err := mounter.(volume.MetricsProvider).GetMetrics(ctx)
				return err
			}
		}
		maps.Copy(all, rowsOfMounter(plugin))
	}
	return all
}

// ofVolume returns the name of a row about a method of a plugin's volume. Some plugins have the frame of package podvolume.
func ofVolume(plugin, method string) string {
	if plugin != "content" && plugin != "emptydir" {
		return plugin + "." + method
	}
	return "util/podvolume." + strings.Replace(method, "podVolume", "frame", 1) + " of " + plugin
}

func rowsOfMounter(plugin string) map[string]row {
	group := int64(4711)
	args := volume.MounterArgs{}
	if plugin != "nfs" {
		args.FsGroup = &group
	}
	mounter := func(r *rig) volume.Mounter {
		spec := r.specs()[plugin]
		p, err := r.mgr.FindPluginBySpec(spec)
		require.NoError(r, err)
		m, err := p.NewMounter(spec, r.pod())
		require.NoError(r, err)
		return m
	}
	unmounter := func(r *rig) volume.Unmounter {
		r.up(plugin)
		p, err := r.mgr.FindPluginBySpec(r.specs()[plugin])
		require.NoError(r, err)
		u, err := p.NewUnmounter("vol", r.pod().UID)
		require.NoError(r, err)
		return u
	}
	return map[string]row{
		ofVolume(plugin, "mounter.SetUp"): func(r *rig) func(context.Context) error {
			m := mounter(r)
			return func(ctx context.Context) error { return m.SetUp(ctx, args) }
		},
		ofVolume(plugin, "mounter.SetUpAt"): func(r *rig) func(context.Context) error {
			m := r.up(plugin)
			return func(ctx context.Context) error { return m.SetUpAt(ctx, m.GetPath(), volume.MounterArgs{}) }
		},
		ofVolume(plugin, "unmounter.TearDown"): func(r *rig) func(context.Context) error {
			u := unmounter(r)
			return u.TearDown
		},
		ofVolume(plugin, "unmounter.TearDownAt"): func(r *rig) func(context.Context) error {
			u := unmounter(r)
			return func(ctx context.Context) error { return u.TearDownAt(ctx, u.GetPath()) }
		},
	}
}

func recyclable(path string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "vol"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource:        v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: path}},
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRecycle,
		},
	}, false)
}

// rowsOfDevices returns rows about a device node, which need not be a device: its file system
// hangs first.
func rowsOfDevices() map[string]row {
	device := func(r *rig) string {
		path := r.disks + "/device"
		require.NoError(r, unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(7, 200))))
		return path
	}
	shared := func(r *rig) string {
		mounter, err := r.local.NewDeviceMounter()
		require.NoError(r, err)
		dir, err := mounter.GetDeviceMountPath(r.specs()["local"])
		require.NoError(r, err)
		return dir
	}
	mapper := func(r *rig) volume.BlockVolumeMapper {
		m, err := r.local.NewBlockVolumeMapper(blockSpec(device(r)), r.pod())
		require.NoError(r, err)
		return m
	}
	unmapper := func(r *rig) volume.BlockVolumeUnmapper {
		u, err := r.local.NewBlockVolumeUnmapper("vol", r.pod().UID)
		require.NoError(r, err)
		return u
	}
	return map[string]row{
		"local.Plugin.CanDeviceMount": func(r *rig) func(context.Context) error {
			spec := localSpec(device(r))
			return func(ctx context.Context) error { _, err := r.local.CanDeviceMount(ctx, spec); return err }
		},
		"local.Plugin.ConstructBlockVolumeSpec": none(func(ctx context.Context, r *rig) error {
			_, err := r.local.ConstructBlockVolumeSpec(ctx, "uid", "vol", r.root+"/pods/uid/volumeDevices/x/vol")
			return err
		}),
		"local.Plugin.Forget": none(func(ctx context.Context, r *rig) error { return r.local.Forget(ctx, "vol") }),
		"local.Plugin.GetDeviceMountRefs": none(func(ctx context.Context, r *rig) error {
			_, err := r.local.GetDeviceMountRefs(ctx, shared(r))
			return err
		}),
		"local.Plugin.NodeExpand": func(r *rig) func(context.Context) error {
			spec := localSpec(device(r))
			return func(ctx context.Context) error {
				_, err := r.local.NodeExpand(ctx, volume.NodeResizeOptions{Spec: spec, NewSize: resource.MustParse("1Gi")})
				return err
			}
		},
		"local.deviceMounter.MountDevice": func(r *rig) func(context.Context) error {
			spec := localSpec(device(r))
			m, err := r.local.NewDeviceMounter()
			require.NoError(r, err)
			return func(ctx context.Context) error {
				return m.MountDevice(ctx, spec, shared(r), volume.DeviceMounterArgs{})
			}
		},
		"local.deviceMounter.UnmountDevice": none(func(ctx context.Context, r *rig) error {
			u, err := r.local.NewDeviceUnmounter()
			require.NoError(r, err)
			return u.UnmountDevice(ctx, shared(r))
		}),
		"local.blockMapper.SetUpDevice": func(r *rig) func(context.Context) error {
			m := mapper(r)
			return func(ctx context.Context) error { _, err := m.SetUpDevice(ctx, volume.BlockVolumePaths{}); return err }
		},
		"local.blockMapper.MapPodDevice": func(r *rig) func(context.Context) error {
			m := mapper(r)
			return func(ctx context.Context) error { _, err := m.MapPodDevice(ctx, volume.BlockVolumePaths{}); return err }
		},
		"local.blockUnmapper.UnmapPodDevice": func(r *rig) func(context.Context) error { return unmapper(r).UnmapPodDevice },
		"local.blockUnmapper.TearDownDevice": func(r *rig) func(context.Context) error {
			u := unmapper(r)
			global, err := u.GetGlobalMapPath(blockSpec(device(r)))
			require.NoError(r, err)
			return func(ctx context.Context) error {
				return u.TearDownDevice(ctx, volume.BlockVolumePaths{GlobalMapPath: global})
			}
		},
		"local.blockVolume.GetMetrics": func(r *rig) func(context.Context) error {
			u := unmapper(r)
			return func(ctx context.Context) error { _, err := u.GetMetrics(ctx); return err }
		},
		"hostpath.Plugin.Recycle": none(func(ctx context.Context, r *rig) error {
			p, err := r.mgr.FindPluginByName("kubernetes.io/host-path")
			require.NoError(r, err)
			return p.(volume.RecyclableVolumePlugin).Recycle(ctx, "vol", recyclable(r.disks+"/disk"))
		}),
		"hostpath.inPlace.SetUp": func(r *rig) func(context.Context) error {
			m := inPlace(r)
			return func(ctx context.Context) error { return m.SetUp(ctx, volume.MounterArgs{}) }
		},
		"hostpath.inPlace.GetMetrics": func(r *rig) func(context.Context) error {
			m := inPlace(r)
			return func(ctx context.Context) error { _, err := m.(volume.MetricsProvider).GetMetrics(ctx); return err }
		},
		"nfs.Plugin.Recycle": none(func(ctx context.Context, r *rig) error {
			p, err := r.mgr.FindPluginByName("kubernetes.io/nfs")
			require.NoError(r, err)
			spec := recyclable("")
			spec.PersistentVolume.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "127.0.0.1", Path: "/export"}}
			return p.(volume.RecyclableVolumePlugin).Recycle(ctx, "vol", spec)
		}),
		"nfs.ProvisioningPlugin.Init": none(func(ctx context.Context, r *rig) error {
			return provisioningPlugin(r).Init(ctx, r.host)
		}),
		"nfs.provisioner.Provision": func(r *rig) func(context.Context) error {
			p, err := provisioningPlugin(r).NewProvisioner(volume.VolumeOptions{PVName: "vol"})
			require.NoError(r, err)
			return func(ctx context.Context) error { _, err := p.Provision(ctx); return err }
		},
		"nfs.deleter.Delete": func(r *rig) func(context.Context) error {
			spec := recyclable("")
			spec.PersistentVolume.Annotations = map[string]string{nfs.OnDeleteAnnotation: "delete"}
			spec.PersistentVolume.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "127.0.0.1", Path: "/export/empty"}}
			d, err := provisioningPlugin(r).NewDeleter(spec)
			require.NoError(r, err)
			return d.Delete
		},
	}
}

// provisioningPlugin returns a plugin that provisions on an export that is mounted at r.hung.
func provisioningPlugin(r *rig) *nfs.ProvisioningPlugin {
	p := nfs.NewProvisioning(nfs.ProvisioningConfig{
		Config: nfs.Config{Mounter: r.mounter}, Provisioner: "p", Server: "127.0.0.1", Path: "/export", Dir: r.hung,
	})
	require.NoError(r, p.Init(context.Background(), r.host))
	return p
}

// inPlace returns the mounter of a host path that is used in place.
func inPlace(r *rig) volume.Mounter {
	plugin := hostpath.New(hostpath.Config{Mounter: r.mounter, Roots: []string{r.disks}, InPlace: true})
	require.NoError(r, plugin.Init(context.Background(), r.host))
	m, err := plugin.NewMounter(r.specs()["hostpath"], r.pod())
	require.NoError(r, err)
	return m
}

// newManager returns a manager and a pod with volumes that may hang.
func (r *rig) newManager() (*manager.Manager, *v1.Pod) {
	pod := r.pod()
	pod.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "empty"}, {Name: "path"}, {Name: "config"}}}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "empty", VolumeSource: r.specs()["emptydir"].Volume.VolumeSource},
		{Name: "path", VolumeSource: r.specs()["hostpath"].Volume.VolumeSource},
		{Name: "config", VolumeSource: r.specs()["content"].Volume.VolumeSource},
	}
	source := manager.NewMemorySource()
	source.SetPod(pod)
	m, err := manager.New(manager.Config{Plugins: r.mgr, Mounter: r.mounter, Pods: source, Claims: source})
	require.NoError(r, err)
	return m, pod
}

func rowsOfManager() map[string]row {
	manifestsOf := func(r *rig) *manifests.Source {
		s, err := manifests.New(r.Context(), manifests.Config{Dir: r.hung + "/empty", Keep: r.hung + "/keep", Node: "node"})
		require.NoError(r, err)
		return s
	}
	memory := manager.NewMemorySource()
	return map[string]row{
		"manager.Manager.Run": func(r *rig) func(context.Context) error {
			m, _ := r.newManager()
			return m.Run
		},
		"manager.Manager.WaitForAllPodsUnmount": func(r *rig) func(context.Context) error {
			m, _ := r.newManager()
			return m.WaitForAllPodsUnmount
		},
		"manager.Manager.WaitForAttachAndMount": func(r *rig) func(context.Context) error {
			m, pod := r.newManager()
			return func(ctx context.Context) error { return m.WaitForAttachAndMount(ctx, pod) }
		},
		"manager.Manager.WaitForVolumes": func(r *rig) func(context.Context) error {
			m, pod := r.newManager()
			return func(ctx context.Context) error { return m.WaitForVolumes(ctx, pod, manager.WaitOptions{}) }
		},
		"manager.Manager.WaitForUnmount": func(r *rig) func(context.Context) error {
			m, pod := r.newManager()
			return func(ctx context.Context) error { return m.WaitForUnmount(ctx, pod) }
		},
		"manager.MemorySource.Pods": none(func(ctx context.Context, _ *rig) error { _, err := memory.Pods(ctx); return err }),
		"manager.MemorySource.Pod": none(func(ctx context.Context, _ *rig) error {
			_, err := memory.Pod(ctx, "uid")
			if errors.Is(err, os.ErrNotExist) {
				err = nil
			}
			return err
		}),
		"manager.MemorySource.GetPersistentVolume": none(func(ctx context.Context, _ *rig) error {
			_, err := memory.GetPersistentVolume(ctx, "vol")
			return err
		}),
		"manager.MemorySource.GetPersistentVolumeClaim": none(func(ctx context.Context, _ *rig) error {
			_, err := memory.GetPersistentVolumeClaim(ctx, "ns", "claim")
			return err
		}),
		"manager/manifests.New": none(func(ctx context.Context, r *rig) error {
			_, err := manifests.New(ctx, manifests.Config{Dir: r.hung + "/empty", Keep: r.hung + "/keep"})
			return err
		}),
		"manager/manifests.Source.Run": func(r *rig) func(context.Context) error { return manifestsOf(r).Run },
		"manager/manifests.Source.Pods": func(r *rig) func(context.Context) error {
			s := manifestsOf(r)
			return func(ctx context.Context) error { _, err := s.Pods(ctx); return err }
		},
		"manager/manifests.Source.Pod": func(r *rig) func(context.Context) error {
			s := manifestsOf(r)
			return func(ctx context.Context) error { _, err := s.Pod(ctx, "uid"); return err }
		},
		"manager/manifests.Source.GetConfigMap": func(r *rig) func(context.Context) error {
			s := manifestsOf(r)
			return func(ctx context.Context) error { _, err := s.GetConfigMap(ctx, "ns", "config"); return err }
		},
		"manager/manifests.Source.GetSecret": func(r *rig) func(context.Context) error {
			s := manifestsOf(r)
			return func(ctx context.Context) error { _, err := s.GetSecret(ctx, "ns", "secret"); return err }
		},
		"manager/manifests.Source.GetPersistentVolume": func(r *rig) func(context.Context) error {
			s := manifestsOf(r)
			return func(ctx context.Context) error { _, err := s.GetPersistentVolume(ctx, "vol"); return err }
		},
		"manager/manifests.Source.GetPersistentVolumeClaim": func(r *rig) func(context.Context) error {
			s := manifestsOf(r)
			return func(ctx context.Context) error { _, err := s.GetPersistentVolumeClaim(ctx, "ns", "claim"); return err }
		},
		"content.MapGetter.GetConfigMap": none(func(ctx context.Context, r *rig) error {
			_, err := r.getter.GetConfigMap(ctx, "ns", "config")
			return err
		}),
		"content.MapGetter.GetSecret": none(func(ctx context.Context, r *rig) error {
			_, err := r.getter.GetSecret(ctx, "ns", "config")
			return err
		}),
		"content.MapGetter.GetNodeAllocatable": none(func(ctx context.Context, r *rig) error {
			_, err := r.getter.GetNodeAllocatable(ctx)
			return err
		}),
		"content.MapGetter.GetServiceAccountToken": none(func(ctx context.Context, r *rig) error {
			_, err := r.getter.GetServiceAccountToken(ctx, r.pod(), &v1.ServiceAccountTokenProjection{})
			return err
		}),
		"content.MapGetter.GetTrustBundle": none(func(ctx context.Context, r *rig) error {
			name := "bundle"
			_, err := r.getter.GetTrustBundle(ctx, &v1.ClusterTrustBundleProjection{Name: &name})
			return err
		}),
	}
}

// onTarget returns rows for the methods of a mounter, with a path that hangs or is below one.
func onTarget(of func(r *rig) mount.Interface, prefix string) map[string]row {
	at := func(call func(ctx context.Context, m mount.Interface, target string) error) row {
		return func(r *rig) func(context.Context) error {
			m, target := of(r), r.target()
			return func(ctx context.Context) error { return call(ctx, m, target) }
		}
	}
	return map[string]row{
		prefix + "IsMountPoint": at(func(ctx context.Context, m mount.Interface, p string) error {
			_, err := m.IsMountPoint(ctx, p)
			return err
		}),
		prefix + "List": at(func(ctx context.Context, m mount.Interface, _ string) error { _, err := m.List(ctx); return err }),
		prefix + "Mount": at(func(ctx context.Context, m mount.Interface, p string) error {
			return m.Mount(ctx, mount.Request{Source: filepath.Join(filepath.Dir(p), "target"), Target: p + "/sub"})
		}),
		prefix + "MountRefs": at(func(ctx context.Context, m mount.Interface, p string) error {
			_, err := m.MountRefs(ctx, p)
			return err
		}),
		prefix + "MountsFrom": at(func(ctx context.Context, m mount.Interface, p string) error {
			_, err := m.MountsFrom(ctx, p)
			return err
		}),
		prefix + "Resolve": at(func(ctx context.Context, m mount.Interface, p string) error { _, err := m.Resolve(ctx, p); return err }),
		prefix + "Isolate": at(func(ctx context.Context, m mount.Interface, p string) error {
			return m.(mount.Isolator).Isolate(ctx, p)
		}),
		prefix + "Unmount":     at(func(ctx context.Context, m mount.Interface, p string) error { return m.Unmount(ctx, p) }),
		prefix + "UnmountTree": at(func(ctx context.Context, m mount.Interface, p string) error { return m.UnmountTree(ctx, p) }),
	}
}

func rowsOfMount() map[string]row {
	all := onTarget(func(r *rig) mount.Interface { return r.mounter }, "mount.Mounter.")
	maps.Copy(all, map[string]row{
		"mount.Mounter.WatchMounts": none(func(ctx context.Context, r *rig) error {
			return r.mounter.WatchMounts(ctx, func(mount.TableChange) {})
		}),
		"mount.Mounter.Watch": none(func(ctx context.Context, r *rig) error { return r.mounter.Watch(ctx, func() {}) }),
		"mount.Mounter.FollowLinks": none(func(ctx context.Context, r *rig) error {
			_, err := r.mounter.FollowLinks(ctx, r.hung+"/empty/x")
			return err
		}),
		"mount.Mounter.MountNew": func(r *rig) func(context.Context) error {
			target := r.target()
			return func(ctx context.Context) error {
				_, err := r.mounter.MountNew(ctx, mount.Request{Source: r.disks + "/disk", Target: target + "/sub"}, mount.NewDirectory{Perm: 0o750})
				return errors.Join(err, ctx.Err())
			}
		},
		"mount.Mounter.UnmountRemove": func(r *rig) func(context.Context) error {
			target := r.target()
			return func(ctx context.Context) error {
				r.mounter.UnmountRemove(ctx, target, mount.NoWait)
				return ctx.Err()
			}
		},
		"mount.Mounter.MountID": func(r *rig) func(context.Context) error {
			target := r.target()
			return func(ctx context.Context) error { _, err := r.mounter.MountID(ctx, target); return err }
		},
	})
	return all
}

// rowsOfPeer returns rows about a mounter of k8s.io/mount-utils that ignores contexts.
func rowsOfPeer() map[string]row {
	all := onTarget(func(*rig) mount.Interface { return mountutils.From(peer.New("")) }, "mount/mountutils.Peer.")
	all["mount/mountutils.WithContext"] = func(r *rig) func(context.Context) error {
		target := r.target()
		return func(ctx context.Context) error {
			_, err := mountutils.New(r.mounter, mountutils.WithContext(ctx)).IsMountPoint(target)
			return err
		}
	}
	return all
}

func rowsOfRecycler() map[string]row {
	pods := func(r *rig) *recycler.Pod {
		hang := func(context.Context, recyclertest.Call) recyclertest.Fault { return recyclertest.Fault{Hang: true} }
		p, err := recycler.NewPod(recycler.PodConfig{Client: recyclertest.NewCluster(recyclertest.Config{Fault: hang})})
		require.NoError(r, err)
		return p
	}
	nfsSpec := recyclable("")
	nfsSpec.PersistentVolume.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/export"}}
	return map[string]row{
		"recycler.Local.Recycle": none(func(ctx context.Context, r *rig) error {
			return r.recycler.Recycle(ctx, "vol", localSpec(r.disks+"/disk"))
		}),
		"recycler.Local.Wait": none(func(ctx context.Context, r *rig) error {
			ended, cancel := context.WithTimeout(ctx, given/4)
			defer cancel()
			err := r.recycler.Recycle(ended, "vol", localSpec(r.disks+"/disk"))
			return errors.Join(err, r.recycler.Wait(ctx))
		}),
		"recycler.Pod.Recycle": func(r *rig) func(context.Context) error {
			p := pods(r)
			return func(ctx context.Context) error { return p.Recycle(ctx, "vol", nfsSpec) }
		},
		"recycler.Pod.Wait": func(r *rig) func(context.Context) error { return pods(r).Wait },
	}
}

func rowsOfVolume() map[string]row {
	return map[string]row{
		"volume.NewHost": none(func(ctx context.Context, r *rig) error { _, err := volume.NewHost(ctx, r.hung+"/empty"); return err }),
		"volume.NewVolumePluginMgr": none(func(ctx context.Context, r *rig) error {
			_, err := volume.NewVolumePluginMgr(ctx, r.host, r.local)
			return err
		}),
		"volume.VolumePluginMgr.Register": func(r *rig) func(context.Context) error {
			mgr, err := volume.NewVolumePluginMgr(r.Context(), r.host)
			require.NoError(r, err)
			return func(ctx context.Context) error { return mgr.Register(ctx, r.local) }
		},
		"volume.VolumePluginMgr.FindAttachablePluginBySpec": none(func(ctx context.Context, r *rig) error {
			_, _, err := r.mgr.FindAttachablePluginBySpec(ctx, r.specs()["local"])
			return err
		}),
		"volume.VolumePluginMgr.FindDeviceMountablePluginBySpec": none(func(ctx context.Context, r *rig) error {
			_, _, err := r.mgr.FindDeviceMountablePluginBySpec(ctx, r.specs()["local"])
			return err
		}),
	}
}

func rowsOfUtil() map[string]row {
	return map[string]row{
		"util/podvolume.NewHostRoots": none(func(ctx context.Context, r *rig) error {
			_, err := podvolume.NewHostRoots(ctx, r.host, []string{r.disks})
			return err
		}),
		"mount.KnowsOption":    none(func(ctx context.Context, _ *rig) error { mount.KnowsOption(ctx, "tmpfs", "noswap"); return nil }),
		"util/podvolume.Tmpfs": none(func(ctx context.Context, _ *rig) error { podvolume.Tmpfs(ctx); return nil }),
		"util/podvolume.RemoveNoteFiles": none(func(ctx context.Context, r *rig) error {
			return podvolume.RemoveNoteFiles(ctx, r.hung+"/empty/in")
		}),
		"docker.Listen": none(func(ctx context.Context, r *rig) error {
			listener, err := docker.Listen(ctx, r.hung+"/empty/s")
			if err == nil {
				_ = listener.Close()
			}
			return err
		}),
		"docker.Serve": none(func(ctx context.Context, r *rig) error {
			listener, err := net.Listen("unix", "@"+rand.Text()) // in no file system
			require.NoError(r, err)
			plugin := nfs.New(nfs.Config{Mounter: r.mounter})
			return docker.Serve(ctx, listener, docker.Config{Name: "d", Plugin: plugin, Host: r.host, Mounter: r.mounter, Share: docker.NFSShare})
		}),
		"util/podvolume.ResolveLinks": none(func(ctx context.Context, r *rig) error {
			_, err := podvolume.ResolveLinks(ctx, r.hung+"/empty")
			return err
		}),
		"util.RemoveEmptyParents": none(func(ctx context.Context, r *rig) error {
			return util.RemoveEmptyParents(ctx, r.hung, r.hung+"/empty/in/it")
		}),
		"util.UnmountMountPoint": func(r *rig) func(context.Context) error {
			target := r.target()
			return func(ctx context.Context) error { return util.UnmountMountPoint(ctx, r.mounter, target) }
		},
		"util.UnmountPath": func(r *rig) func(context.Context) error {
			target := r.target()
			return func(ctx context.Context) error { return util.UnmountPath(ctx, r.mounter, target) }
		},
	}
}

func rowsOfPods() map[string]row {
	mounts := func(call func(ctx context.Context, r *rig, p *podvolume.Mounts, dir string, req mount.Request) error) row {
		return func(r *rig) func(context.Context) error {
			p, dir := podvolume.NewMounts(r.host, r.mounter), r.target()
			return func(ctx context.Context) error { return call(ctx, r, p, dir, mount.Request{Source: r.disks + "/disk"}) }
		}
	}
	dirs := func(call func(ctx context.Context, p *podvolume.Dirs, dir string) error) row {
		return func(r *rig) func(context.Context) error {
			p := podvolume.NewDirs(r.host, r.mounter, "example.com/plugin")
			dir, err := r.host.PodVolumeDir("uid", "example.com/plugin", "vol")
			require.NoError(r, err)
			if r.hangs != hungSource {
				require.NoError(r, p.SetUp(r.Context(), dir, podvolume.Dir{Mode: 0o750}))
			}
			return func(ctx context.Context) error { return call(ctx, p, dir) }
		}
	}
	notes := func(call func(ctx context.Context, n *podvolume.Notes, dir string) error) row {
		return func(r *rig) func(context.Context) error {
			n, dir := podvolume.NewNotes(podvolume.NewMounts(r.host, r.mounter), "example.com/plugin"), r.target()
			if r.hangs != hungSource {
				require.NoError(r, n.Write(r.Context(), dir, []byte(`{}`)))
			}
			return func(ctx context.Context) error { return call(ctx, n, dir) }
		}
	}
	return map[string]row{
		"util/podvolume.Notes.Write": notes(func(ctx context.Context, n *podvolume.Notes, dir string) error {
			return n.Write(ctx, dir, []byte(`{}`))
		}),
		"util/podvolume.Notes.Read": notes(func(ctx context.Context, n *podvolume.Notes, dir string) error {
			_, err := n.Read(ctx, dir)
			return err
		}),
		"util/podvolume.Notes.Remove": notes(func(ctx context.Context, n *podvolume.Notes, dir string) error { return n.Remove(ctx, dir) }),
		"util/podvolume.Mounts.At": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			_, _, err := p.At(ctx, dir)
			return err
		}),
		"util/podvolume.Mounts.CheckMounted": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			return p.CheckMounted(ctx, dir)
		}),
		"util/podvolume.Mounts.Exclusively": mounts(func(ctx context.Context, r *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			return p.Exclusively(ctx, dir, func(context.Context, string) error { return unix.Rmdir(r.hung + "/empty") })
		}),
		"util/podvolume.Mounts.IfIdle": mounts(func(ctx context.Context, r *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			return p.IfIdle(ctx, dir, func(context.Context, string) error { return unix.Rmdir(r.hung + "/empty") })
		}),
		"util/podvolume.Mounts.GetMetrics": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			_, err := p.GetMetrics(ctx, dir)
			return err
		}),
		"util/podvolume.Mounts.GetCounted": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			_, err := p.GetCounted(ctx, dir, podvolume.NewWalker())
			return err
		}),
		"util/podvolume.Mounts.Mount": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, req mount.Request) error {
			return p.Mount(ctx, dir+"-2", req)
		}),
		"util/podvolume.Mounts.DeviceMountRefs": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			_, err := p.DeviceMountRefs(ctx, dir)
			return err
		}),
		"util/podvolume.Mounts.MountWith": mounts(func(ctx context.Context, r *rig, p *podvolume.Mounts, dir string, req mount.Request) error {
			req.Target = dir + "-3"
			return p.MountWith(ctx, req.Target, func(ctx context.Context) error { return r.mounter.Mount(ctx, req) })
		}),
		"util/podvolume.Mounts.MountFile": mounts(func(ctx context.Context, r *rig, p *podvolume.Mounts, dir string, req mount.Request) error {
			req.Source += "/file"
			return p.MountFile(ctx, r.root+"/files/file", req)
		}),
		"util/podvolume.Mounts.SetUp": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, req mount.Request) error {
			return p.SetUp(ctx, dir+"-2/in/it", req)
		}),
		"util/podvolume.Mounts.SetUpNew": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, req mount.Request) error {
			_, err := p.SetUpNew(ctx, dir+"/sub", req, func() {})
			return errors.Join(err, ctx.Err())
		}),
		"util/podvolume.Mounts.TearDown": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			return p.TearDown(ctx, dir)
		}),
		"util/podvolume.Mounts.Unmount": mounts(func(ctx context.Context, _ *rig, p *podvolume.Mounts, dir string, _ mount.Request) error {
			return p.Unmount(ctx, dir)
		}),
		"util/podvolume.Dirs.SetUp": dirs(func(ctx context.Context, p *podvolume.Dirs, dir string) error {
			return p.SetUp(ctx, strings.Replace(dir, "uid", "other", 1), podvolume.Dir{Mode: 0o750})
		}),
		"util/podvolume.Dirs.TearDown": dirs(func(ctx context.Context, p *podvolume.Dirs, dir string) error { return p.TearDown(ctx, dir) }),
		"util/podvolume.Dirs.Find":     dirs(func(ctx context.Context, p *podvolume.Dirs, dir string) error { _, err := p.Find(ctx, dir); return err }),
		"util/podvolume.Dirs.GetMetrics": dirs(func(ctx context.Context, p *podvolume.Dirs, dir string) error {
			_, err := p.GetMetrics(ctx, dir)
			return err
		}),
	}
}

func rowsOfLeaves() map[string]row {
	root := func(call func(ctx context.Context, root *scrub.Root) error) row {
		return func(r *rig) func(context.Context) error {
			root, err := scrub.Open(r.Context(), r.hung)
			require.NoError(r, err)
			r.Cleanup(func() { _ = root.Close() })
			return func(ctx context.Context) error { return call(ctx, root) }
		}
	}
	request := func(r *rig) subpath.Request {
		return subpath.Request{
			PodDir: r.root + "/target", Volume: "vol", Container: "c", VolumeDir: r.disks + "/disk", Path: "sub/new", Create: true,
		}
	}
	return map[string]row{
		"util/atomicdir.Write": none(func(ctx context.Context, r *rig) error {
			_, err := atomicdir.Write(ctx, r.hung+"/empty", map[string]atomicdir.File{"a": {Data: []byte("b")}}, atomicdir.Options{})
			return err
		}),
		"util/ctxend.Await": none(func(ctx context.Context, r *rig) error {
			_, err := ctxend.Await(ctx, ctxend.Kernel, func() (int, error) { return 0, unix.Rmdir(r.hung + "/empty") }, nil)
			return err
		}),
		"util/ctxend.Error": none(func(ctx context.Context, _ *rig) error { <-ctx.Done(); return ctxend.Error(ctx) }),
		"util/ctxend.Sleep": none(func(ctx context.Context, _ *rig) error { return ctxend.Sleep(ctx, time.Hour) }),
		"util/ctxend.Receive": none(func(ctx context.Context, _ *rig) error {
			ctxend.Receive(ctx, make(chan int), ctxend.Kernel)
			return nil
		}),
		"util/progress.Begin": none(func(ctx context.Context, _ *rig) error {
			defer progress.Begin(progress.With(ctx, func(progress.Report) {}), progress.Step{Name: progress.Format})()
			<-ctx.Done()
			return ctx.Err()
		}),
		"util/progress.Inherit": none(func(ctx context.Context, _ *rig) error {
			ctx = progress.Inherit(ctx, ctx)
			<-ctx.Done()
			return ctx.Err()
		}),
		"util/progress.With": none(func(ctx context.Context, _ *rig) error {
			ctx = progress.With(ctx, func(progress.Report) {})
			<-ctx.Done()
			return ctx.Err()
		}),
		"util/keylock.Await": func(r *rig) func(context.Context) error {
			var locks keylock.Map
			return func(ctx context.Context) error {
				_, _, err := keylock.Await(ctx, locks.Key("key"), ctxend.Kernel, func() (int, error) { return 0, unix.Rmdir(r.hung + "/empty") }, nil)
				return err
			}
		},
		"util/keylock.Map.Lock": func(*rig) func(context.Context) error {
			var locks keylock.Map
			return func(ctx context.Context) error { _, err := locks.Lock(ctx, "key"); return err }
		},
		"util/fsusage.BlockSize": none(func(ctx context.Context, r *rig) error { _, err := fsusage.BlockSize(ctx, r.hung+"/empty"); return err }),
		"util/fsusage.Info": none(func(ctx context.Context, r *rig) error {
			_, _, _, _, _, _, err := fsusage.Info(ctx, r.hung+"/empty")
			return err
		}),
		"util/fsusage.Stat": none(func(ctx context.Context, r *rig) error { _, err := fsusage.Stat(ctx, r.hung+"/empty"); return err }),
		"util/fsusage.Walk": none(func(ctx context.Context, r *rig) error { _, err := fsusage.Walk(ctx, r.hung); return err }),
		"util/fsusage.Walker.Walk": func(r *rig) func(context.Context) error {
			var walker fsusage.Walker
			return func(ctx context.Context) error { _, err := walker.Walk(ctx, r.hung); return err }
		},
		"util/metrics.Info": none(func(ctx context.Context, r *rig) error {
			_, _, _, _, _, _, err := metrics.Info(ctx, r.hung+"/empty")
			return err
		}),
		"util/metrics.providerFunc.GetMetrics": none(func(ctx context.Context, r *rig) error {
			_, err := metrics.NewMetricsDu(r.hung, nil).GetMetrics(ctx)
			return err
		}),
		"util/ownership.Apply": none(func(ctx context.Context, r *rig) error {
			group := int64(4711)
			_, err := ownership.Apply(ctx, r.hung, ownership.Options{Group: &group})
			return err
		}),
		"util/scrub.Open": none(func(ctx context.Context, r *rig) error {
			root, err := scrub.Open(ctx, r.hung+"/empty")
			if err == nil {
				err = root.Close()
			}
			return err
		}),
		"util/scrub.Root.Check": root(func(ctx context.Context, root *scrub.Root) error { return root.Check(ctx, scrub.Options{}) }),
		"util/scrub.Root.Empty": root(func(ctx context.Context, root *scrub.Root) error {
			_, err := root.Empty(ctx, scrub.Options{})
			return err
		}),
		"util/scrub.Root.DeleteTrash": root(func(ctx context.Context, root *scrub.Root) error {
			_, err := root.DeleteTrash(ctx, scrub.Options{Trash: "empty"})
			return err
		}),
		"util/subpath.Bind": none(func(ctx context.Context, r *rig) error {
			_, err := subpath.Bind(ctx, r.mounter, request(r))
			return err
		}),
		"util/subpath.Cleanup": func(r *rig) func(context.Context) error {
			_, err := subpath.Bind(r.Context(), r.mounter, request(r))
			require.NoError(r, err)
			return func(ctx context.Context) error { return subpath.Cleanup(ctx, r.mounter, r.root+"/target", "vol") }
		},
		"util/subpath.Detach": func(r *rig) func(context.Context) error {
			_, err := subpath.Bind(r.Context(), r.mounter, request(r))
			require.NoError(r, err)
			return func(ctx context.Context) error {
				return subpath.Detach(ctx, r.mounter, r.root+"/target", "vol", subpath.DetachOptions{})
			}
		},
		"util/subpath.Volumes": none(func(ctx context.Context, r *rig) error { _, err := subpath.Volumes(ctx, r.hung); return err }),
	}
}

func rowsOfSafepath() map[string]row {
	return map[string]row{
		"util/safepath.CreateFile": none(func(ctx context.Context, r *rig) error {
			_, err := safepath.CreateFile(ctx, r.hung, r.hung+"/empty/file", 0o600)
			return err
		}),
		"util/safepath.MkdirAll": none(func(ctx context.Context, r *rig) error {
			_, err := safepath.MkdirAll(ctx, r.hung, r.hung+"/empty/a/b", 0o700)
			return err
		}),
		"util/safepath.Open": none(func(ctx context.Context, r *rig) error {
			fd, err := safepath.Open(ctx, unix.AT_FDCWD, r.hung+"/empty/x", 0)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}),
		"util/safepath.OpenParent": none(func(ctx context.Context, r *rig) error {
			fd, _, err := safepath.OpenParent(ctx, r.hung+"/empty/x")
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		}),
		"util/safepath.RemoveEmptyFile": none(func(ctx context.Context, r *rig) error { return safepath.RemoveEmptyFile(ctx, r.hung+"/empty") }),
		"util/safepath.RemoveMade": none(func(ctx context.Context, r *rig) error {
			return safepath.RemoveMade(ctx, r.hung+"/empty", r.hung+"/empty/x")
		}),
		"util/safepath.Rmdir": none(func(ctx context.Context, r *rig) error { return safepath.Rmdir(ctx, r.hung+"/empty") }),
	}
}

// rowsOfLoop returns rows about a backing file that may hang, and paths in its file system.
func rowsOfLoop() map[string]row {
	image := func(call func(ctx context.Context, image *os.File) error) row {
		return func(r *rig) func(context.Context) error {
			file, err := os.Create(r.hung + "/image")
			require.NoError(r, err)
			require.NoError(r, file.Truncate(1<<20))
			r.Cleanup(func() { _ = file.Close() })
			return func(ctx context.Context) error { return call(ctx, file) }
		}
	}
	return map[string]row{
		"util/loop.Attach": image(func(ctx context.Context, image *os.File) error {
			d, err := loop.Attach(ctx, loop.Config{File: image})
			if err == nil {
				err = loop.Detach(context.Background(), d)
			}
			return err
		}),
		"util/loop.AttachFileDevice": image(func(ctx context.Context, image *os.File) error {
			d, err := loop.AttachFileDevice(ctx, image.Name(), loop.Config{})
			if err == nil {
				err = loop.Detach(context.Background(), d)
			}
			return err
		}),
		"util/loop.GetLoopDevice": image(func(ctx context.Context, image *os.File) error {
			_, err := loop.GetLoopDevice(ctx, image.Name())
			return err
		}),
		"util/loop.DetachFileDevice": image(func(ctx context.Context, image *os.File) error { return loop.DetachFileDevice(ctx, image.Name()) }),
		"util/loop.Status":           image(func(ctx context.Context, image *os.File) error { _, err := loop.Status(ctx, image.Name()); return err }),
		"util/loop.Detach": image(func(ctx context.Context, image *os.File) error {
			return loop.Detach(ctx, loop.Device{Path: image.Name()})
		}),
		"util/loop.Resize": image(func(ctx context.Context, image *os.File) error {
			return loop.Resize(ctx, loop.Device{Path: image.Name()})
		}),
		"util/loop.List":  none(func(ctx context.Context, _ *rig) error { _, err := loop.List(ctx); return err }),
		"util/loop.Named": none(func(ctx context.Context, _ *rig) error { _, err := loop.Named(ctx, "neverstuck"); return err }),
	}
}
