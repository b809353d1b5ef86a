package content_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type args = volume.MounterArgs

// A node has the four plugins, and objects for them.
type node struct {
	*content.MapGetter
	host    *volume.Host
	plugins *volume.VolumePluginMgr
	pod     *v1.Pod
}

// newNode returns a node with a fake mounter: the files of its tmpfs mounts are on disk.
func newNode(t *testing.T) *node {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return nodeIn(t, dir, mounttest.NewFake(mount.Config{}), nil)
}

// nodeIn lets change edit the configuration.
func nodeIn(t require.TestingT, dir string, m mount.Interface, change func(*content.Config)) *node {
	require.NoError(t, os.MkdirAll(dir+"/root", 0o755))
	host, err := volume.NewHost(context.Background(), dir+"/root")
	require.NoError(t, err)
	n := &node{MapGetter: &content.MapGetter{}, host: host, pod: newPod()}
	config := n.Config()
	config.Mounter, config.Certificates = m, certificates{}
	if change != nil {
		change(&config)
	}
	n.plugins, err = volume.NewVolumePluginMgr(context.Background(), host, content.NewConfigMap(config), content.NewSecret(config),
		content.NewDownwardAPI(config), content.NewProjected(config))
	require.NoError(t, err)
	n.SetConfigMap(&v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"},
		Data:       map[string]string{"color": "blue", "size": "3"},
		BinaryData: map[string][]byte{"logo": {0, 1, 255}},
	})
	n.SetSecret(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"},
		Data:       map[string][]byte{"user": []byte("sesame")},
		StringData: map[string]string{"password": "hush-hush"},
	})
	n.SetToken("ns", "robot", []byte("hush-token"))
	n.SetTrustBundle("bundle", []byte("PEM"))
	n.SetNodeAllocatable(v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("1Gi")})
	return n
}

func newPod() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "pod", UID: "pod-uid-1",
			Labels:      map[string]string{"app": "web", "tier": "front"},
			Annotations: map[string]string{"Example.com/Note": "a \"b\"\nc"},
		},
		Spec: v1.PodSpec{
			ServiceAccountName: "robot",
			Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
				Limits:   v1.ResourceList{"cpu": resource.MustParse("1500m"), "hugepages-2Mi": resource.MustParse("4Mi")},
				Requests: v1.ResourceList{"memory": resource.MustParse("100Mi")},
			}}},
			InitContainers: []v1.Container{{Name: "first"}},
		},
	}
}

type certificates struct{}

func (certificates) GetPodCertificate(context.Context, *v1.Pod, *content.PodCertificateProjection) (content.Certificate, error) {
	return content.Certificate{Key: []byte("hush-key\n"), Chain: []byte("chain\n")}, nil
}

// mounter finds the plugin of a source, as a volume that is called v.
func (n *node) mounter(t require.TestingT, source v1.VolumeSource) volume.Mounter {
	m, err := n.newMounter(source)
	require.NoError(t, err)
	return m
}

func (n *node) newMounter(source v1.VolumeSource) (volume.Mounter, error) {
	spec := volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: source})
	plugin, err := n.plugins.FindPluginBySpec(spec)
	if err != nil {
		return nil, err
	}
	return plugin.NewMounter(spec, n.pod)
}

func (n *node) unmounter(t require.TestingT, source v1.VolumeSource) volume.Unmounter {
	plugin, err := n.plugins.FindPluginBySpec(volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: source}))
	require.NoError(t, err)
	u, err := plugin.NewUnmounter("v", n.pod.UID)
	require.NoError(t, err)
	return u
}

// setUpAndRead sets a volume up and returns the contents of its files by name.
func (n *node) setUpAndRead(t *testing.T, source v1.VolumeSource, args volume.MounterArgs) map[string]string {
	t.Helper()
	m := n.mounter(t, source)
	require.NoError(t, m.SetUp(t.Context(), args))
	return texts(t, m.GetPath())
}

func (n *node) tearDown(t *testing.T, source v1.VolumeSource) {
	t.Helper()
	u := n.unmounter(t, source)
	require.NoError(t, u.TearDown(t.Context()))
	require.NoDirExists(t, u.GetPath())
}

// texts reads the files that a container sees, through the links in the volume.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, text := range setOf(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		all[name] = text
	}
	return all
}

// setOf reads the files of the set that is in place.
func setOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	set, err := filepath.EvalSymlinks(dir + "/..data")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(set, func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(set, name)
		require.NoError(t, err)
		data, err := os.ReadFile(name)
		all[rel] = string(data)
		return err
	}))
	return all
}

func configMap(items ...v1.KeyToPath) v1.VolumeSource {
	return v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{
		LocalObjectReference: v1.LocalObjectReference{Name: "config"}, Items: items,
	}}
}

func secret(items ...v1.KeyToPath) v1.VolumeSource {
	return v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "login", Items: items}}
}

func downward(items ...v1.DownwardAPIVolumeFile) v1.VolumeSource {
	return v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: items}}
}

func fieldItem(path, of string) v1.DownwardAPIVolumeFile {
	return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: of}}
}

func resourceItem(path, container, of, divisor string) v1.DownwardAPIVolumeFile {
	ref := &v1.ResourceFieldSelector{ContainerName: container, Resource: of}
	if divisor != "" {
		ref.Divisor = resource.MustParse(divisor)
	}
	return v1.DownwardAPIVolumeFile{Path: path, ResourceFieldRef: ref}
}

func projected(sources ...v1.VolumeProjection) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: sources}}
}

func ptr[T any](v T) *T { return &v }

// projectedFromAllSources is a projected volume with each kind of source that the linked API has.
func projectedFromAllSources() v1.VolumeSource {
	all := projected(
		v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "config"}}},
		v1.VolumeProjection{Secret: &v1.SecretProjection{
			LocalObjectReference: v1.LocalObjectReference{Name: "login"},
			Items:                []v1.KeyToPath{{Key: "password", Path: "deep/password", Mode: ptr[int32](0o400)}},
		}},
		v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{fieldItem("name", "metadata.name")}}},
		v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
		v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr("bundle"), Path: "ca.pem"}},
	)
	if source, ok := certificateSource(certificate("both.pem", "key.pem", "")); ok {
		all.Projected.Sources = append(all.Projected.Sources, source)
	}
	return all
}
