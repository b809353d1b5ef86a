package content_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestConfigMap(t *testing.T) {
	n := newNode(t)
	require.Equal(t, map[string]string{"color": "blue", "size": "3", "logo": "\x00\x01\xff"}, n.setUpAndRead(t, configMap(), args{}))
	n.tearDown(t, configMap())
	items := configMap(v1.KeyToPath{Key: "color", Path: "a/b/c"}, v1.KeyToPath{Key: "logo", Path: "./a//logo"})
	require.Equal(t, map[string]string{"a/b/c": "blue", "a/logo": "\x00\x01\xff"}, n.setUpAndRead(t, items, args{}))
	n.tearDown(t, items)
}

func TestSecret(t *testing.T) {
	n := newNode(t)
	require.Equal(t, map[string]string{"user": "sesame", "password": "hush-hush"}, n.setUpAndRead(t, secret(), args{}))
	n.tearDown(t, secret())
}

func TestDownwardAPI(t *testing.T) {
	n := newNode(t)
	source := downward(
		fieldItem("name", "metadata.name"), fieldItem("in", "metadata.namespace"), fieldItem("id", "metadata.uid"),
		fieldItem("labels", "metadata.labels"), fieldItem("app", "metadata.labels['app']"),
		fieldItem("none", "metadata.labels['none']"), fieldItem("notes", "metadata.annotations"),
		fieldItem("note", "metadata.annotations['Example.com/Note']"),
		resourceItem("cpu", "main", "limits.cpu", ""), resourceItem("millis", "main", "limits.cpu", "1m"),
		resourceItem("memory", "main", "requests.memory", "1Mi"), resourceItem("bytes", "main", "requests.memory", ""),
		resourceItem("node's", "main", "limits.memory", "1M"), resourceItem("node's cpu", "first", "limits.cpu", "0"),
		resourceItem("nothing", "first", "requests.cpu", ""), resourceItem("pages", "main", "limits.hugepages-2Mi", "1Mi"),
		resourceItem("no pages", "main", "limits.hugepages-1Gi", ""), resourceItem("storage", "main", "limits.ephemeral-storage", ""),
	)
	require.Equal(t, map[string]string{
		"name": "pod", "in": "ns", "id": "pod-uid-1",
		"labels": "app=\"web\"\ntier=\"front\"", "app": "web", "none": "",
		"notes": `Example.com/Note="a \"b\"\nc"`, "note": "a \"b\"\nc",
		"cpu": "2", "millis": "1500", "memory": "100", "bytes": "104857600", "node's": "1074", "node's cpu": "4",
		"nothing": "0", "pages": "4", "no pages": "0", "storage": "0",
	}, n.setUpAndRead(t, source, args{}))

	n.pod = n.pod.DeepCopy()
	n.pod.Labels["app"] = "api"
	require.Equal(t, "api", n.setUpAndRead(t, source, args{})["app"], "a mounter for the pod as it is now")
	n.tearDown(t, source)
}

func TestProjected(t *testing.T) {
	n := newNode(t)
	want := map[string]string{
		"color": "blue", "size": "3", "logo": "\x00\x01\xff", "deep/password": "hush-hush", "name": "pod",
		"token": "hush-token", "ca.pem": "PEM",
	}
	if len(projectedFromAllSources().Projected.Sources) > 5 {
		want["both.pem"], want["key.pem"] = "hush-key\nchain\n", "hush-key\n"
	}
	require.Equal(t, want, n.setUpAndRead(t, projectedFromAllSources(), args{}))
	n.tearDown(t, projectedFromAllSources())
}

// TestLaterSourceWins checks that the last of two sources with the same path wins, and that a path
// which is a file of one source and a directory of another is an error.
func TestLaterSourceWins(t *testing.T) {
	n := newNode(t)
	source := projectedFromAllSources()
	source.Projected.Sources[2].DownwardAPI.Items[0].Path = "color"
	require.Equal(t, "pod", n.setUpAndRead(t, source, args{})["color"])
	n.tearDown(t, source)

	source.Projected.Sources[2].DownwardAPI.Items[0].Path = "color/of"
	err := n.mounter(t, source).SetUp(t.Context(), args{})
	require.ErrorContains(t, err, "a file, and a directory of others")
	require.Equal(t, volume.Final, volume.KindOf(err))
	require.NoDirExists(t, n.mounter(t, source).GetPath())
}

// TestUpdate: SetUp of a volume that is up brings it up to date, and changes nothing that
// is as it should be.
func TestUpdate(t *testing.T) {
	n := newNode(t)
	m := n.mounter(t, projectedFromAllSources())
	require.NoError(t, m.SetUp(t.Context(), args{}))
	before, err := os.Readlink(m.GetPath() + "/..data")
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, m.SetUp(t.Context(), args{}))
	}
	after, err := os.Readlink(m.GetPath() + "/..data")
	require.NoError(t, err)
	require.Equal(t, before, after)

	n.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"}, Data: map[string]string{"color": "red"}})
	n.SetToken("ns", "robot", []byte("newer"))
	require.NoError(t, m.SetUp(t.Context(), args{}))
	now := texts(t, m.GetPath())
	require.Equal(t, "red", now["color"])
	require.Equal(t, "newer", now["token"])
	require.NotContains(t, now, "size")
	require.NoFileExists(t, m.GetPath()+"/size")

	n.DeleteConfigMap("ns", "config")
	err = m.SetUp(t.Context(), args{})
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Equal(t, now, texts(t, m.GetPath()), "the old files stay")
	n.tearDown(t, projectedFromAllSources())
}

func TestMissingObjects(t *testing.T) {
	n := newNode(t)
	n.DeleteSecret("ns", "login")
	n.DeleteConfigMap("ns", "config")
	for object, source := range map[string]v1.VolumeSource{"secret ns/login": secret(), "configMap ns/config": configMap()} {
		m := n.mounter(t, source)
		err := m.SetUp(t.Context(), args{})
		require.ErrorContains(t, err, object+" not found")
		require.Equal(t, 1, strings.Count(err.Error(), object), "%v", err)
		require.Equal(t, volume.Transient, volume.KindOf(err), "it may come")
		require.NoDirExists(t, m.GetPath())
	}
	optional := secret(v1.KeyToPath{Key: "x", Path: "x"})
	optional.Secret.Optional = ptr(true)
	require.Empty(t, n.setUpAndRead(t, optional, args{}))
	n.SetSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"}, StringData: map[string]string{"y": "1"}})
	require.Empty(t, n.setUpAndRead(t, optional, args{}), "without the key")
	n.SetSecret(&v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"}, StringData: map[string]string{"x": "1"}})
	require.Equal(t, map[string]string{"x": "1"}, n.setUpAndRead(t, optional, args{}), "it has come")
	n.tearDown(t, optional)

	required := secret(v1.KeyToPath{Key: "z", Path: "z"})
	err := n.mounter(t, required).SetUp(t.Context(), args{})
	require.ErrorContains(t, err, `no key "z"`)
	require.Equal(t, volume.Transient, volume.KindOf(err))
}

// TestModes: files have the modes of their items, or the default mode.
func TestModes(t *testing.T) {
	n := newNode(t)
	mode := func(name string) fs.FileMode {
		info, err := os.Stat(name)
		require.NoError(t, err)
		return info.Mode()
	}
	source := secret(v1.KeyToPath{Key: "user", Path: "d/user"}, v1.KeyToPath{Key: "password", Path: "password", Mode: ptr[int32](0o400)})
	dir := n.mounter(t, source).GetPath()
	n.setUpAndRead(t, source, args{})
	require.Equal(t, fs.FileMode(0o644), mode(dir+"/d/user"))
	require.Equal(t, fs.FileMode(0o400), mode(dir+"/password"))
	require.Equal(t, fs.ModeDir|0o755, mode(dir))
	n.tearDown(t, source)
	source.Secret.DefaultMode = ptr[int32](0)
	group := int64(os.Getegid())
	n.setUpAndRead(t, source, args{FsGroup: &group})
	require.Equal(t, fs.FileMode(0o440), mode(dir+"/d/user"))
	require.Equal(t, fs.FileMode(0o440), mode(dir+"/password"))
	n.tearDown(t, source)
}

// TestOwners: files have the group and the user of the pod, and modes that let the owner read.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		mounttest.SkipWithout(t, "root", "only root gives files away")
	}
	n := newNode(t)
	dir := n.mounter(t, projectedFromAllSources()).GetPath()
	user, group := int64(1001), int64(2002)
	for _, test := range []struct {
		args args
		want map[string]string
	}{
		{args{}, map[string]string{"token": "0 0 0644", "color": "0 0 0644", "deep/password": "0 0 0400"}},
		{args{FsGroup: &group}, map[string]string{"token": "0 2002 0640", "color": "0 2002 0644", "deep/password": "0 2002 0440"}},
		{args{FsUser: &user}, map[string]string{"token": "1001 0 0600", "color": "0 0 0644", "ca.pem": "1001 0 0600"}},
		{args{FsUser: &user, FsGroup: &group}, map[string]string{"token": "1001 2002 0640", "ca.pem": "1001 2002 0640"}},
	} {
		n.setUpAndRead(t, projectedFromAllSources(), test.args)
		for name, want := range test.want {
			require.Equal(t, want, owner(t, dir+"/"+name), name)
		}
		n.tearDown(t, projectedFromAllSources())
	}
	n.setUpAndRead(t, projectedFromAllSources(), args{FsGroup: &group})
	group++
	n.setUpAndRead(t, projectedFromAllSources(), args{FsGroup: &group})
	require.Equal(t, "0 2003 0640", owner(t, dir+"/token"), "another group, while it is up")
	n.setUpAndRead(t, projectedFromAllSources(), args{FsUser: &user})
	require.Equal(t, "0 0 0644", owner(t, dir+"/color"), "no group any more")
	n.setUpAndRead(t, projectedFromAllSources(), args{})
	require.Equal(t, "0 0 0644", owner(t, dir+"/token"), "nor a user")
	n.tearDown(t, projectedFromAllSources())
}

func TestRefusedArgs(t *testing.T) {
	n := newNode(t)
	m := n.mounter(t, configMap())
	size := resource.MustParse("1Gi")
	require.ErrorIs(t, m.SetUp(t.Context(), args{SELinuxLabel: "x"}), volume.ErrNotSupported)
	require.ErrorIs(t, m.SetUp(t.Context(), args{DesiredSize: &size}), volume.ErrNotSupported)
	for _, id := range []int64{-1, 1<<32 - 1, 1 << 40} {
		var refused *field.Error
		require.ErrorAs(t, m.SetUp(t.Context(), args{FsGroup: &id}), &refused)
		require.ErrorAs(t, m.SetUp(t.Context(), args{FsUser: &id}), &refused)
	}
	require.NoDirExists(t, m.GetPath())
}

func TestInit(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	m := mounttest.NewFake(mount.Config{})
	require.Error(t, content.NewProjected(content.Config{}).Init(t.Context(), host))
	require.ErrorContains(t, content.NewSecret(content.Config{Mounter: m}).Init(t.Context(), host), "Config.Secrets")
	require.ErrorContains(t, content.NewConfigMap(content.Config{Mounter: m}).Init(t.Context(), host), "Config.ConfigMaps")
	require.NoError(t, content.NewDownwardAPI(content.Config{Mounter: m}).Init(t.Context(), host))
	require.NoError(t, content.NewProjected(content.Config{Mounter: m}).Init(t.Context(), host))
	_, err = content.NewSecret(content.Config{}).NewUnmounter("v", "uid")
	require.Error(t, err)
}

// TestMissingGetter checks that a volume is refused if its source needs an unset getter, and
// that the plugin's other volumes are accepted.
func TestMissingGetter(t *testing.T) {
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) {
		c.Tokens, c.TrustBundles, c.Certificates, c.Node = nil, nil, nil, nil
	})
	all := projectedFromAllSources().Projected.Sources
	for i, source := range all {
		_, err := n.newMounter(projected(source))
		if i < 3 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, volume.ErrNotSupported)
		require.Contains(t, fieldOf(t, err), "spec.volume.projected.sources[0].")
	}
	_, err := n.newMounter(downward(resourceItem("a", "first", "limits.cpu", "")))
	require.ErrorIs(t, err, volume.ErrNotSupported)
	require.Equal(t, "spec.volume.downwardAPI.items[0].resourceFieldRef", fieldOf(t, err))
	source := downward(resourceItem("a", "main", "limits.cpu", ""), resourceItem("b", "first", "requests.cpu", ""))
	require.Equal(t, map[string]string{"a": "2", "b": "0"}, n.setUpAndRead(t, source, args{}))
	n.tearDown(t, source)
}

// failing is a getter whose answer is an error, or nothing.
type failing struct{ err error }

func (f failing) GetSecret(context.Context, string, string) (*v1.Secret, error) { return nil, f.err }
func (f failing) GetConfigMap(context.Context, string, string) (*v1.ConfigMap, error) {
	return nil, f.err
}
func (f failing) GetTrustBundle(context.Context, *v1.ClusterTrustBundleProjection) ([]byte, error) {
	return nil, f.err
}
func (f failing) GetPodCertificate(context.Context, *v1.Pod, *content.PodCertificateProjection) (content.Certificate, error) {
	return content.Certificate{Key: []byte("hush")}, f.err
}
func (f failing) GetServiceAccountToken(context.Context, *v1.Pod, *v1.ServiceAccountTokenProjection) ([]byte, error) {
	return nil, f.err
}

func TestFailingGetters(t *testing.T) {
	down := errors.New("the server is down")
	for _, want := range []error{down, nil, fmt.Errorf("%w, ever", volume.ErrNotSupported)} {
		n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) {
			c.Secrets, c.ConfigMaps, c.Tokens, c.TrustBundles, c.Certificates =
				failing{want}, failing{want}, failing{want}, failing{want}, failing{want}
		})
		optional := secret()
		optional.Secret.Optional = ptr(true)
		sources := []v1.VolumeSource{secret(), configMap(), optional}
		for _, made := range projectedFromAllSources().Projected.Sources[3:] {
			sources = append(sources, projected(made))
		}
		for _, source := range sources {
			m := n.mounter(t, source)
			err := m.SetUp(t.Context(), args{})
			require.Error(t, err)
			if want != nil {
				require.ErrorIs(t, err, want)
			}
			wanted := volume.Transient
			if errors.Is(want, volume.ErrNotSupported) {
				wanted = volume.Final
			}
			require.Equal(t, wanted, volume.KindOf(err))
			require.NoDirExists(t, m.GetPath())
		}
	}
}

// requireNoSecret fails if text contains "hush" in one of the notations of fmt and encoding.
func requireNoSecret(t *testing.T, value any, text string) {
	t.Helper()
	for _, hush := range []string{"hush", "104, 117, 115", "0x68, 0x75", "104 117 115", "68757368", "68 75 73 68", "aHVza"} {
		require.NotContains(t, text, hush, "%T", value)
	}
}

// TestNoSecretIsShown, wherever one may look.
func TestNoSecretIsShown(t *testing.T) {
	n := newNode(t)
	n.SetSecret(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"},
		Data:       map[string][]byte{"password": []byte("hush-hush"), "..bad": []byte("hush-bad")},
	})
	source := secret()
	m := n.mounter(t, source)
	err := m.SetUp(t.Context(), args{})
	require.ErrorContains(t, err, "..bad")
	plugin, findErr := n.plugins.FindPluginByName(content.SecretPluginName)
	require.NoError(t, findErr)
	certificate := content.Certificate{Key: []byte("hush-key")}
	for _, value := range []any{err, n.MapGetter, plugin, m, certificate, &certificate} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x", "% X"} {
			requireNoSecret(t, value, fmt.Sprintf(verb, value))
		}
	}
	for _, value := range []any{n.MapGetter, certificate, &certificate, map[string]any{"is": certificate}} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		requireNoSecret(t, value, string(text))
	}
	// Nothing of it is noted on disk, either.
	require.NoError(t, n.mounter(t, projectedFromAllSources()).SetUp(t.Context(), args{}))
	require.NoError(t, fs.WalkDir(os.DirFS(n.host.Root()), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() && !strings.Contains(name, "/volumes/") {
			data, err := os.ReadFile(n.host.Root() + "/" + name)
			require.NoError(t, err)
			require.NotContains(t, string(data), "hush", name)
		}
		return err
	}))
	n.tearDown(t, projectedFromAllSources())
}
