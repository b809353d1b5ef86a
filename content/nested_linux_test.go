package content_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumeMounts returns volume mounts: names with paths.
func volumeMounts(pairs ...string) (all []v1.VolumeMount) {
	for i := 0; i < len(pairs); i += 2 {
		all = append(all, v1.VolumeMount{Name: pairs[i], MountPath: pairs[i+1]})
	}
	return all
}

// TestNestedMounts: a container has the volume read-only, and mounts other volumes in it
// as a runtime does, without making anything. They stay mounted while the files change.
func TestNestedMounts(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for name, source := range map[string]v1.VolumeSource{
		"configMap": configMap(v1.KeyToPath{Key: "color", Path: "certs/color"}),
		"secret":    secret(v1.KeyToPath{Key: "user", Path: "certs/color"}),
		"projected": projected(v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
			LocalObjectReference: v1.LocalObjectReference{Name: "config"},
			Items:                []v1.KeyToPath{{Key: "color", Path: "certs/color"}},
		}}),
		"downwardAPI": downward(fieldItem("certs/color", "metadata.labels['app']")),
	} {
		t.Run(name, func(t *testing.T) { requireNested(t, source) })
	}
}

func requireNested(t *testing.T, source v1.VolumeSource) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := nodeIn(t, dir, mount.New(mount.Config{}), nil)
	n.pod.Spec.Volumes = []v1.Volume{{Name: "other", VolumeSource: configMap()}}
	n.pod.Spec.Containers[0].VolumeMounts = append(
		volumeMounts("v", "/etc/app/", "cache", "/etc/app/cache", "cache", "/etc/app/cache/of/its/own", "deep", "/etc/app/certs/deep"),
		v1.VolumeMount{Name: "other", SubPath: "size", MountPath: "/etc/app/certs/size"})
	n.setUpAndRead(t, source, args{})
	defer n.tearDown(t, source)

	app, inner := dir+"/app", dir+"/inner"
	require.NoError(t, os.MkdirAll(app, 0o755))
	require.NoError(t, os.WriteFile(inner, []byte("inner"), 0o600))
	container := testbed.NewContainer(t)
	bind := func(from, to string, flags uintptr) {
		require.NoError(t, container.Do(func() error { return syscall.Mount(from, to, "", syscall.MS_BIND|flags, "") }))
	}
	bind(n.mounter(t, source).GetPath(), app, 0)
	bind("", app, syscall.MS_REMOUNT|syscall.MS_RDONLY)
	require.ErrorIs(t, container.Do(func() error { return os.Mkdir(app+"/another", 0o755) }), syscall.EROFS)
	for _, place := range []string{"/cache", "/certs/deep"} {
		require.NoError(t, container.Do(func() error { return syscall.Mount("inner", app+place, "tmpfs", 0, "") }))
		require.NoError(t, container.Do(func() error { return os.WriteFile(app+place+"/file", []byte("inner"), 0o600) }))
	}
	bind(inner, app+"/certs/size", 0)

	for _, color := range []string{"red", "green"} {
		n.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"}, Data: map[string]string{"color": color}})
		n.SetSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"}, Data: map[string][]byte{"user": []byte(color)}})
		n.pod.Labels["app"] = color
		n.setUpAndRead(t, source, args{})
		for file, want := range map[string]string{
			"/certs/color": color, "/cache/file": "inner", "/certs/deep/file": "inner", "/certs/size": "inner",
		} {
			var text []byte
			require.NoError(t, container.Do(func() (err error) { text, err = os.ReadFile(app + file); return err }), file)
			require.Equal(t, want, string(text), file)
		}
	}
}

// TestMountPoints derives the mount points in a volume from the pod.
func TestMountPoints(t *testing.T) {
	const dir, file = fs.ModeDir | 0o755, fs.FileMode(0o644)
	hostFile := v1.HostPathFile
	volumes := []v1.Volume{
		{Name: "keys", VolumeSource: configMap()},
		{Name: "items", VolumeSource: secret(v1.KeyToPath{Key: "user", Path: "a/b"})},
		{Name: "self", VolumeSource: projected(v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{
			Items: []v1.DownwardAPIVolumeFile{fieldItem("labels", "metadata.labels")}}})},
		{Name: "node's", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/x", Type: &hostFile}}},
	}
	part := func(name, subPath, at string) []v1.VolumeMount {
		return []v1.VolumeMount{{Name: name, SubPath: subPath, MountPath: at}}
	}
	for name, test := range map[string]struct {
		mounts []v1.VolumeMount
		want   map[string]fs.FileMode
	}{
		"none":          {volumeMounts("v", "/a", "x", "/ab", "x", "/b/a/c"), nil},
		"one":           {volumeMounts("x", "/a/b/c", "v", "/a"), map[string]fs.FileMode{"b": dir, "b/c": dir}},
		"not clean":     {volumeMounts("x", "//a/./b/", "v", "/c/../a/"), map[string]fs.FileMode{"b": dir}},
		"in the root":   {volumeMounts("x", "/a", "v", "/"), map[string]fs.FileMode{"a": dir}},
		"in another":    {volumeMounts("x", "/a/b", "x", "/a/b/c", "v", "/a", "x", "/a/bc"), map[string]fs.FileMode{"b": dir, "bc": dir}},
		"its own":       {volumeMounts("v", "/a", "v", "/a/b", "x", "/a/b/c"), map[string]fs.FileMode{"b": dir, "c": dir}},
		"of a part":     {append(part("v", "certs", "/a"), volumeMounts("x", "/a/b")...), nil},
		"key":           {append(part("keys", "some.conf", "/a/b"), volumeMounts("v", "/a")...), map[string]fs.FileMode{"b": file}},
		"item":          {append(part("items", "./a//b", "/a/b"), volumeMounts("v", "/a")...), map[string]fs.FileMode{"b": file}},
		"item's parent": {append(part("items", "a", "/a/b"), volumeMounts("v", "/a")...), map[string]fs.FileMode{"b": dir}},
		"field":         {append(part("self", "labels", "/a/b"), volumeMounts("v", "/a")...), map[string]fs.FileMode{"b": file}},
		"unknown part":  {append(part("x", "a", "/a/b"), volumeMounts("v", "/a")...), map[string]fs.FileMode{"b": dir}},
		"file of node":  {volumeMounts("v", "/a", "node's", "/a/b"), map[string]fs.FileMode{"b": file}},
		"two parts":     {append([]v1.VolumeMount{{Name: "keys", SubPath: "x", SubPathExpr: "$(X)", MountPath: "/a/b"}}, volumeMounts("v", "/a")...), map[string]fs.FileMode{"b": file}},
		"expression":    {append([]v1.VolumeMount{{Name: "node's", SubPathExpr: "$(X)", MountPath: "/a/b"}}, volumeMounts("v", "/a")...), map[string]fs.FileMode{"b": dir}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, of := range []func(*v1.PodSpec) *[]v1.VolumeMount{
				func(s *v1.PodSpec) *[]v1.VolumeMount { return &s.Containers[0].VolumeMounts },
				func(s *v1.PodSpec) *[]v1.VolumeMount {
					s.InitContainers = []v1.Container{{}}
					return &s.InitContainers[0].VolumeMounts
				},
				func(s *v1.PodSpec) *[]v1.VolumeMount {
					s.EphemeralContainers = []v1.EphemeralContainer{{}}
					return &s.EphemeralContainers[0].VolumeMounts
				},
			} {
				n := newNode(t)
				n.pod.Spec.Volumes = volumes
				*of(&n.pod.Spec) = test.mounts
				source := configMap(v1.KeyToPath{Key: "color", Path: "color"})
				n.setUpAndRead(t, source, args{})
				require.Equal(t, test.want, places(t, n.mounter(t, source).GetPath()))
				n.tearDown(t, source)
			}
		})
	}
}

// TestDirectoryWins: a mount point that one container needs as a directory is not made a file for another.
func TestDirectoryWins(t *testing.T) {
	n := newNode(t)
	n.pod.Spec.Volumes = []v1.Volume{{Name: "keys", VolumeSource: configMap()}}
	n.pod.Spec.Containers[0].VolumeMounts = append(volumeMounts("v", "/a"), v1.VolumeMount{Name: "keys", SubPath: "x", MountPath: "/a/b"})
	n.pod.Spec.InitContainers = []v1.Container{{VolumeMounts: volumeMounts("v", "/a", "x", "/a/b/c")}}
	n.setUpAndRead(t, secret(), args{})
	require.DirExists(t, n.mounter(t, secret()).GetPath()+"/b/c")
	n.tearDown(t, secret())
}

// places returns the modes of all entries that are no symbolic links.
func places(t *testing.T, dir string) (all map[string]fs.FileMode) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		if len(entry.Name()) > 1 && entry.Name()[:2] == ".." && entry.IsDir() {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Type() != fs.ModeSymlink {
			if all == nil {
				all = map[string]fs.FileMode{}
			}
			all[name[len(dir)+1:]] = info.Mode()
		}
		return err
	}))
	return all
}

// TestRefusedMountPoints: a mount point that would be in the way of the files' own names.
func TestRefusedMountPoints(t *testing.T) {
	for _, name := range []string{"..data", "..data/x", "..2006_01_02_15_04_05.1", "..x", "a/" + string(make([]byte, 3))} {
		n := newNode(t)
		n.pod.Spec.Containers[0].VolumeMounts = volumeMounts("x", "/x", "v", "/etc/app", "x", "/etc/app/"+name)
		_, err := n.newMounter(configMap())
		var invalid *field.Error
		require.ErrorAs(t, err, &invalid, name)
		require.Equal(t, "pod.spec.containers[0].volumeMounts[2].mountPath", invalid.Field)
	}
}

// TestManyMounts: a pod with as many mounts, keys and volumes as the API server accepts
// does not keep NewMounter busy, which has no context: the work grows with the mounts, and
// not with their square.
func TestManyMounts(t *testing.T) {
	const many = 15_000
	for name, at := range map[string]func(i int) (outer, inner string){
		"side by side":  func(i int) (string, string) { return "/", fmt.Sprintf("/%d", i) },
		"of the volume": func(i int) (string, string) { return fmt.Sprintf("/%d", i), fmt.Sprintf("/%d/a", i) },
		"in another":    func(i int) (string, string) { return "/", fmt.Sprintf("/a/%d", i) },
		"deep":          func(i int) (string, string) { return "/", "/a" + strings.Repeat("/b", i%60) + fmt.Sprintf("/%d", i) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			items := make([]v1.KeyToPath, many)
			mounts := volumeMounts("x", "/a/b")
			for i := range many {
				outer, inner := at(i)
				items[i] = v1.KeyToPath{Key: "user", Path: fmt.Sprint(i)}
				mounts = append(mounts, volumeMounts("v", outer)...)
				mounts = append(mounts, v1.VolumeMount{Name: "items", SubPath: fmt.Sprint(i), MountPath: inner})
				n.pod.Spec.Volumes = append(n.pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint(i)})
			}
			n.pod.Spec.Volumes = append(n.pod.Spec.Volumes, v1.Volume{Name: "items", VolumeSource: secret(items...)})
			n.pod.Spec.Containers[0].VolumeMounts = mounts
			_, err := n.newMounter(configMap())
			require.NoError(t, err)
		})
	}
}
