package manager_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A successor is a node that takes over the volumes of a kubelet.
type successor struct {
	*realNode
	testing.TB
	getter content.MapGetter
}

func newSuccessor(t testing.TB, dir string) *successor {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "links"), 0o755))
	s := &successor{realNode: &realNode{dir: dir, source: manager.NewMemorySource()}, TB: t}
	s.kernel = mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, s.kernel.Close()) })
	s.setClaim("a", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(dir, "disks/a")}})
	s.setClaim("b", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(dir, "disks/b")}})
	s.setConfigMap("1")
	s.getter.SetSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "sec"}, Data: map[string][]byte{"pw": []byte("hidden")}})
	s.restart()
	return s
}

// setClaim adds a claim, "claim-" and the name, with its volume, "pv-" and the name.
func (s *successor) setClaim(name string, source v1.PersistentVolumeSource) {
	s.TB.Helper()
	claim, uid := "claim-"+name, types.UID("uid-"+name)
	require.NoError(s.TB, s.source.SetVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv-" + name},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: source, ClaimRef: &v1.ObjectReference{Namespace: "default", Name: claim, UID: uid}},
	}))
	require.NoError(s.TB, s.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: claim, UID: uid},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "pv-" + name},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}))
}

func (s *successor) setConfigMap(a string) {
	s.getter.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cm"}, Data: map[string]string{"a": a, "b.conf": "two"}})
}

// restart makes the manager of a new process.
func (s *successor) restart() {
	s.TB.Helper()
	host, err := volume.NewHost(s.TB.Context(), filepath.Join(s.dir, "root"))
	require.NoError(s.TB, err)
	files := s.getter.Config()
	files.Mounter = s.kernel
	plugins, err := volume.NewVolumePluginMgr(s.TB.Context(), host,
		local.New(local.Config{
			Mounter: s.kernel, Roots: []string{filepath.Join(s.dir, "disks")}, DeviceLinks: []string{filepath.Join(s.dir, "links")},
		}),
		hostpath.New(hostpath.Config{Mounter: s.kernel, Roots: []string{filepath.Join(s.dir, "hostname")}, InPlace: true}),
		emptydir.New(emptydir.Config{Mounter: s.kernel, NoteFiles: true}),
		content.NewConfigMap(files), content.NewSecret(files), content.NewDownwardAPI(files), content.NewProjected(files),
	)
	require.NoError(s.TB, err)
	s.manager, err = manager.New(manager.Config{Plugins: plugins, Mounter: s.kernel, Pods: s.source, Claims: s.source, Refresh: -1})
	require.NoError(s.TB, err)
}

// mounts returns the mounts below the node's directory, by their paths in it.
func (s *successor) mounts() map[string]mount.Info {
	s.TB.Helper()
	table, err := s.kernel.List(s.TB.Context())
	require.NoError(s.TB, err)
	all := map[string]mount.Info{}
	for _, info := range table {
		if below, ok := strings.CutPrefix(info.Mountpoint, s.dir+"/"); ok {
			require.NotContains(s.TB, all, below, "stacked mounts")
			all[below] = info
		}
	}
	return all
}

// requireTakenOver requires the mounts of before, each the same, those of volumes with
// nosuid and nodev, that of the volume which the pod only reads with ro.
func (s *successor) requireTakenOver(before map[string]mount.Info) {
	s.TB.Helper()
	now := s.mounts()
	require.Len(s.TB, now, len(before))
	for path, was := range before {
		is := now[path]
		if strings.Contains(path, "/volumes/") || strings.Contains(path, "/local-volume/mounts/") {
			added := mount.NoSUID | mount.NoDev
			if strings.HasSuffix(path, "/pv-b") {
				added |= mount.ReadOnly
			}
			require.Equal(s.TB, was.Flags|added, is.Flags, path)
			was.Flags, was.Options = is.Flags, is.Options
		}
		require.Equal(s.TB, was, is, path)
	}
}

// newKubeletDir is newTmpfsDir with the flags of a node's disk: suid, dev, and shared.
func newKubeletDir(t *testing.T) string {
	t.Helper()
	dir := newTmpfsDir(t)
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND, ""), "suid and dev")
	require.NoError(t, syscall.Mount("", dir, "", syscall.MS_SHARED, ""))
	return dir
}

// TestTakeOver: the manager takes over the volumes of a stopped kubelet while the pod runs. Every
// mount stays the same one, and every file as it is; the mounts of volumes get nosuid and nodev, and
// ro if the pod only reads; those of the container do not change. Updates reach the pod, and the
// tear-down leaves nothing.
func TestTakeOver(t *testing.T) {
	if mounttest.Namespace(t) {
		testTakeOver(t, os.Getgid())
	}
}

// TestTakeOverAsRoot is TestTakeOver with a group of the pod, and notes in extended attributes.
func TestTakeOverAsRoot(t *testing.T) {
	if mounttest.RootNamespace(t) {
		testTakeOver(t, 2000)
	}
}

func testTakeOver(t *testing.T, group int) {
	dir := newKubeletDir(t)
	tree := kubeletTree{TB: t, dir: dir, uid: "0a1b2c3d", group: group}
	tree.build()
	s := newSuccessor(t, dir)
	before, files := s.mounts(), tree.content()
	require.Len(t, before, 9)
	for path, info := range before {
		require.Zero(t, info.Flags&(mount.NoSUID|mount.NoDev), path)
	}

	pod := tree.desired()
	for range 2 {
		s.source.SetPod(pod) // a manager that never sees the pod tears its volumes down
		stop := s.run(t.Context())
		require.NoError(t, s.up(t.Context(), pod))
		s.requireTakenOver(before)
		require.Equal(t, files, tree.content())
		require.Empty(t, s.manager.State().Leftovers)
		mounted := s.manager.GetMountedVolumesForPod(pod.UID)
		require.Len(t, mounted, len(pod.Spec.Volumes))
		require.Equal(t, filepath.Join(dir, "hostname"), mounted["host"].Path)
		require.Equal(t, tree.volume("configmap", "cm"), mounted["cm"].Path)
		require.NoError(t, stop())
		for _, volume := range []string{"nested", "mem", "wrapped_cm", "wrapped_sec", "wrapped_self", "wrapped_all"} {
			require.FileExists(t, filepath.Join(tree.pod(), "plugins/kubernetes.io~empty-dir", volume, "ready"), "for the kubelet")
		}
		s.restart()
	}

	s.source.SetPod(pod)
	stop := s.run(t.Context())
	require.NoError(t, s.up(t.Context(), pod))
	s.setConfigMap("new")
	s.manager.MarkRemountRequired(pod.UID)
	for _, file := range []string{tree.volume("configmap", "cm") + "/a", tree.volume("projected", "all") + "/a"} {
		require.Eventually(t, func() bool {
			text, err := os.ReadFile(file)
			return err == nil && string(text) == "new"
		}, time.Minute, time.Millisecond)
	}
	require.DirExists(t, tree.volume("configmap", "cm")+"/nested")
	text, err := os.ReadFile(tree.pod() + "/volume-subpaths/cm/c/2")
	require.NoError(t, err)
	require.Equal(t, "1", string(text), "a subPath shows the file that the container has begun with")

	tree.stopContainer()
	require.NoError(t, s.down(t.Context(), pod))
	require.NoError(t, s.manager.WaitForAllPodsUnmount(t.Context()))
	require.NoError(t, stop())
	require.Empty(t, s.mounts())
	left, err := os.ReadDir(tree.pod())
	require.NoError(t, err)
	require.Equal(t, []string{"containers", "etc-hosts"}, namesOf(left), "of the container runtime")
	for file, want := range map[string]string{"disks/a/file": "on disk", "hostname": "node"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
}

func namesOf(entries []os.DirEntry) (names []string) {
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	slices.Sort(names)
	return names
}

// TestTakeOverOfCSI: volumes of a plugin that is not registered stay as they are, in the pod
// and in the directory of the plugin, and are shown. Their set-up fails, and the pod's other volumes
// are taken over and torn down.
func TestTakeOverOfCSI(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newKubeletDir(t)
	tree := kubeletTree{TB: t, dir: dir, uid: "0a1b2c3d", group: os.Getgid()}
	tree.build()
	tree.stopContainer()
	global := filepath.Join(dir, "root/plugins/kubernetes.io/csi/driver.example.com/0123456789abcdef/globalmount")
	target := tree.volume("csi", "pv-csi/mount")
	for _, path := range []string{global, target} {
		require.NoError(t, os.MkdirAll(path, 0o750))
		tree.mount("tmpfs", path, "tmpfs", 0, "")
		require.NoError(t, os.WriteFile(filepath.Dir(path)+"/vol_data.json", []byte("{}"), 0o644))
		require.NoError(t, os.WriteFile(path+"/file", nil, 0o644))
	}
	s := newSuccessor(t, dir)
	s.setClaim("csi", v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "driver.example.com", VolumeHandle: "handle"}})
	before := s.mounts()
	requireForeign := func(mounts map[string]mount.Info) {
		t.Helper()
		foreign := 0
		for path, info := range mounts {
			if strings.Contains(path, "csi/") {
				require.Equal(t, before[path], info)
				require.FileExists(t, filepath.Join(dir, path, "file"))
				require.FileExists(t, filepath.Join(dir, filepath.Dir(path), "vol_data.json"))
				foreign++
			}
		}
		require.Equal(t, 2, foreign)
	}
	requireForeign(before)
	pod := tree.desired()
	others := len(pod.Spec.Volumes)
	pod.Spec.Volumes = slices.Insert(pod.Spec.Volumes, 1, byClaim("csi", "claim-csi"))
	pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: "csi", MountPath: "/csi"})
	s.source.SetPod(pod)
	stop := s.run(t.Context())
	require.Eventually(t, func() bool { return len(s.manager.GetMountedVolumesForPod(pod.UID)) == others }, time.Minute, time.Millisecond)
	var failed *manager.WaitError
	require.ErrorAs(t, s.manager.WaitForVolumes(t.Context(), pod, manager.WaitOptions{EndOnFinalError: true}), &failed)
	require.Len(t, failed.Volumes, 1)
	require.Equal(t, "csi", failed.Volumes[0].Name)
	require.ErrorIs(t, failed.Volumes[0].Err, volume.ErrNoPluginMatched)
	require.Len(t, s.mounts(), len(before))
	requireForeign(s.mounts())
	leftovers := s.manager.State().Leftovers
	require.Len(t, leftovers, 1)
	require.Equal(t, filepath.Dir(target), leftovers[0].Path)
	require.Equal(t, "kubernetes.io/csi", leftovers[0].Plugin)
	require.Equal(t, pod.UID, leftovers[0].Pod)

	s.source.RemovePod(pod.UID)
	require.Eventually(t, func() bool {
		state := s.manager.State()
		return state.Populated && len(state.Volumes) == 0
	}, time.Minute, time.Millisecond)
	require.NoError(t, stop())
	now := s.mounts()
	require.Len(t, now, 2)
	requireForeign(now)
	left, err := os.ReadDir(tree.pod() + "/volumes")
	require.NoError(t, err)
	require.Equal(t, []string{"kubernetes.io~csi"}, namesOf(left))
}

// TestTakeOverOfDevice: the manager takes over a device that a kubelet has mounted for a local
// volume by one of its links, with its mount in the pod. It tears both down, also if the pod was
// deleted while no manager ran, or gives them back and keeps nothing of them once a kubelet has
// unmounted them.
func TestTakeOverOfDevice(t *testing.T) {
	for _, end := range []string{deviceTornDown, devicePodGone, deviceGivenBack} {
		t.Run(end, func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				testTakeOverOfDevice(t, end)
			}
		})
	}
}

// Ends of testTakeOverOfDevice.
const deviceTornDown, devicePodGone, deviceGivenBack = "torn down", "torn down after its pod", "given back"

func testTakeOverOfDevice(t *testing.T, end string) {
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		mounttest.SkipWithout(t, "ext4", err)
	}
	dir := newKubeletDir(t)
	device := loopDevice(t, dir)
	require.NoError(t, exec.Command(mkfs, "-q", device).Run())
	for _, name := range []string{"disks", "hostname", "links"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{"another", "device"} {
		require.NoError(t, os.Symlink(device, filepath.Join(dir, "links", name)))
	}
	tree := kubeletTree{TB: t, dir: dir, uid: "0a1b2c3d"}
	global, target := filepath.Join(dir, "root/plugins/kubernetes.io/local-volume/mounts/pv-disk"), tree.volume("local-volume", "pv-disk")
	tree.mkdir(global, 0o750, 0)
	tree.mkdir(target, 0o750, 0)
	tree.mount(device, global, "ext4", 0, "")
	tree.mount(global, target, "", syscall.MS_BIND, "")

	s := newSuccessor(t, dir)
	s.setClaim("disk", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir + "/links/device"}})
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "of-device", UID: tree.uid}}
	pod.Spec.Volumes = []v1.Volume{byClaim("disk", "claim-disk")}
	pod.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{{Name: "disk", MountPath: "/disk"}}}}
	before := s.mounts()
	require.Len(t, before, 2)
	s.source.SetPod(pod)
	for range 2 {
		stop := s.run(t.Context())
		require.NoError(t, s.up(t.Context(), pod))
		s.requireTakenOver(before)
		require.Empty(t, s.manager.State().Leftovers)
		require.NoError(t, stop())
		s.restart()
	}
	if end == deviceGivenBack {
		for _, dir := range []string{target, global} {
			require.NoError(t, syscall.Unmount(dir, 0))
			require.NoError(t, os.Remove(dir))
		}
	}
	if end != deviceTornDown {
		s.source.RemovePod(pod.UID)
	}
	stop := s.run(t.Context())
	if end == deviceTornDown {
		require.NoError(t, s.up(t.Context(), pod))
	}
	require.NoError(t, s.down(t.Context(), pod))
	require.Eventually(t, func() bool {
		state := s.manager.State()
		return state.Populated && len(state.Volumes) == 0
	}, time.Minute, time.Millisecond)
	require.Empty(t, s.manager.State().Leftovers)
	require.NoError(t, stop())
	require.Empty(t, s.mounts())
	require.NoDirExists(t, target)
	require.NoDirExists(t, global)
	requireFree(t, device)
}
