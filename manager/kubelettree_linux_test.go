package manager_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// kubeletSet is the name of a set of files as the kubelet writes them.
const kubeletSet = "..2026_11_22_15_43_34.4223995248"

// A kubeletTree is a pod's directory with its mounts, as a kubelet v1.37 leaves them when it is
// stopped, and the mounts of the pod's running container.
type kubeletTree struct {
	testing.TB
	dir   string // of the node
	uid   types.UID
	group int
}

func (k kubeletTree) pod() string { return filepath.Join(k.dir, "root/pods", string(k.uid)) }

func (k kubeletTree) volume(plugin, name string) string {
	return filepath.Join(k.pod(), "volumes/kubernetes.io~"+plugin, name)
}

// mkdir makes a directory with its mode and the pod's group.
func (k kubeletTree) mkdir(dir string, mode os.FileMode, group int) {
	k.Helper()
	require.NoError(k, os.MkdirAll(dir, 0o750))
	require.NoError(k, os.Chown(dir, -1, group))
	require.NoError(k, os.Chmod(dir, mode))
}

func (k kubeletTree) mount(source, target, fsType string, flags uintptr, data string) {
	k.Helper()
	require.NoError(k, syscall.Mount(source, target, fsType, flags, data), target)
}

// noteReady writes the kubelet's note that the directory of a volume is ready.
func (k kubeletTree) noteReady(name string) {
	k.Helper()
	note := filepath.Join(k.pod(), "plugins/kubernetes.io~empty-dir", name, "ready")
	require.NoError(k, os.MkdirAll(filepath.Dir(note), 0o750))
	require.NoError(k, os.WriteFile(note, nil, 0o644))
	require.NoError(k, os.Chmod(note, 0o644))
}

// tmpfs mounts a volume in memory, without nosuid and nodev.
func (k kubeletTree) tmpfs(plugin, name, size string) (dir string) {
	k.Helper()
	dir = k.volume(plugin, name)
	k.mkdir(dir, 0o777, 0)
	k.mount("tmpfs", dir, "tmpfs", 0, "size="+size)
	k.mkdir(dir, os.ModeSetgid|0o777, k.group)
	return dir
}

// write writes the files of a volume.
func (k kubeletTree) write(dir string, files map[string]string) {
	k.Helper()
	set := filepath.Join(dir, kubeletSet)
	k.mkdir(set, os.ModeSetgid|0o755, k.group)
	require.NoError(k, os.Symlink(kubeletSet, filepath.Join(dir, "..data")))
	for name, text := range files {
		require.NoError(k, os.WriteFile(filepath.Join(set, name), []byte(text), 0o644))
		require.NoError(k, os.Chown(filepath.Join(set, name), -1, k.group))
		require.NoError(k, os.Symlink("..data/"+name, filepath.Join(dir, name)))
	}
}

// build makes the tree: emptyDir on disk and in memory, configMap with a subPath and a volume
// nested in it, secret, downward API, projected, local, and a local one that the container mounts
// read-only.
func (k kubeletTree) build() {
	k.Helper()
	defer syscall.Umask(syscall.Umask(0o022))
	k.mkdir(k.pod(), 0o750, 0)

	nested := k.volume("empty-dir", "nested")
	k.mkdir(nested, os.ModeSetgid|0o777, k.group)
	require.NoError(k, os.WriteFile(nested+"/file", []byte("of the pod"), 0o600))
	require.NoError(k, os.Chmod(nested, 0o700), "by the pod")
	k.noteReady("nested")

	mem := k.tmpfs("empty-dir", "mem", "1024k")
	require.NoError(k, os.WriteFile(mem+"/file", []byte("in memory"), 0o600))
	k.noteReady("mem")

	cm := k.volume("configmap", "cm")
	k.mkdir(cm, os.ModeSetgid|0o777, k.group)
	k.write(cm, map[string]string{"a": "1", "b.conf": "two"})
	k.mkdir(cm+"/nested", os.ModeSetgid|0o755, k.group)
	k.noteReady("wrapped_cm")

	k.write(k.tmpfs("secret", "sec", "8m"), map[string]string{"pw": "hidden"})
	k.noteReady("wrapped_sec")
	k.write(k.tmpfs("downward-api", "self", "8m"), map[string]string{"podname": "all"})
	k.noteReady("wrapped_self")
	k.write(k.tmpfs("projected", "all", "8m"), map[string]string{"a": "1", "b.conf": "two", "pw": "hidden"})
	k.noteReady("wrapped_all")

	for _, name := range []string{"a", "b"} {
		disk := filepath.Join(k.dir, "disks", name)
		k.mkdir(disk, 0o755, 0)
		require.NoError(k, os.WriteFile(disk+"/file", []byte("on disk"), 0o600))
		k.mkdir(k.volume("local-volume", "pv-"+name), 0o750, 0)
		k.mount(disk, k.volume("local-volume", "pv-"+name), "", syscall.MS_BIND, "")
	}

	part := filepath.Join(k.pod(), "volume-subpaths/cm/c/2")
	require.NoError(k, os.MkdirAll(filepath.Dir(part), 0o750))
	require.NoError(k, os.WriteFile(part, nil, 0o640))
	k.mount(filepath.Join(cm, kubeletSet, "a"), part, "", syscall.MS_BIND, "")

	require.NoError(k, os.Mkdir(k.pod()+"/containers", 0o750))
	require.NoError(k, os.WriteFile(k.pod()+"/etc-hosts", nil, 0o644))
	require.NoError(k, os.WriteFile(k.dir+"/hostname", []byte("node"), 0o644))

	for name, source := range map[string]string{"mem": mem, "data": k.volume("local-volume", "pv-a")} {
		in := k.container(name)
		require.NoError(k, os.MkdirAll(in, 0o755))
		k.mount(source, in, "", syscall.MS_BIND, "")
		k.mount("", in, "", syscall.MS_PRIVATE, "")
	}
}

// container returns the path of the mount that stands for that of a container.
func (k kubeletTree) container(name string) string { return filepath.Join(k.dir, "container", name) }

// stopContainer unmounts the mounts of the container.
func (k kubeletTree) stopContainer() {
	k.Helper()
	for _, name := range []string{"mem", "data"} {
		require.NoError(k, syscall.Unmount(k.container(name), 0))
	}
}

func byClaim(name, claim string) v1.Volume {
	return v1.Volume{Name: name, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}
}

// desired returns the pod as an API server has it.
func (k kubeletTree) desired() *v1.Pod {
	limit, group := resource.MustParse("1Mi"), int64(k.group)
	file := v1.HostPathFile
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "all", UID: k.uid}}
	pod.Spec.SecurityContext = &v1.PodSecurityContext{FSGroup: &group}
	configMap, secret := v1.LocalObjectReference{Name: "cm"}, v1.LocalObjectReference{Name: "sec"}
	pod.Spec.Volumes = []v1.Volume{
		byClaim("data", "claim-a"), byClaim("reads", "claim-b"),
		{Name: "cm", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: configMap}}},
		{Name: "nested", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}},
		{Name: "sec", VolumeSource: v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "sec"}}},
		{Name: "mem", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory, SizeLimit: &limit}}},
		{Name: "self", VolumeSource: v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "podname", FieldRef: &v1.ObjectFieldSelector{FieldPath: "metadata.name"}},
		}}}},
		{Name: "all", VolumeSource: v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: configMap}},
			{Secret: &v1.SecretProjection{LocalObjectReference: secret}},
		}}}},
		{Name: "host", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(k.dir, "hostname"), Type: &file}}},
	}
	pod.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: []v1.VolumeMount{
		{Name: "data", MountPath: "/data"}, {Name: "reads", MountPath: "/reads", ReadOnly: true},
		{Name: "cm", MountPath: "/cm"}, {Name: "cm", MountPath: "/cmfile", SubPath: "a"},
		{Name: "nested", MountPath: "/cm/nested"}, {Name: "sec", MountPath: "/sec"}, {Name: "mem", MountPath: "/mem"},
		{Name: "self", MountPath: "/self"}, {Name: "all", MountPath: "/all"}, {Name: "host", MountPath: "/host", ReadOnly: true},
	}}}
	return pod
}

// content returns the files of the pod's volumes with their modes, inodes and text, and the
// modes of the volumes' directories.
func (k kubeletTree) content() (lines []string) {
	k.Helper()
	root := filepath.Join(k.pod(), "volumes")
	require.NoError(k, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		stat := info.Sys().(*syscall.Stat_t)
		line := fmt.Sprintf("%s %v %d %d", strings.TrimPrefix(path, root), info.Mode(), stat.Gid, stat.Ino)
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(path)
			require.NoError(k, err)
			line += " " + string(text)
		}
		lines = append(lines, line)
		return nil
	}))
	return lines
}
