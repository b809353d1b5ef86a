package content_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The contract's pods are called pod, in the namespace default, and have no containers.
var kinds = map[string]struct {
	make    func(content.Config) *content.Plugin
	good    v1.VolumeSource
	plain   bool
	invalid map[string]v1.VolumeSource
}{
	"configMap": {content.NewConfigMap, configMap(), true, invalidConfigMaps()},
	"secret":    {content.NewSecret, secret(v1.KeyToPath{Key: "user", Path: "a/user"}), false, invalidSecrets()},
	"downwardAPI": {
		content.NewDownwardAPI, downward(fieldItem("name", "metadata.name"), fieldItem("label", "metadata.labels['is']")),
		false, invalidDownward(),
	},
	"projected": {content.NewProjected, projectedFromAllSources(), false, invalidProjected()},
}

// TestContract: each plugin keeps the contract of plugins on the real kernel.
func TestContract(t *testing.T) {
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			if mounttest.Namespace(t) {
				config := contractConfig(name)
				config.NewMounter = func(*testing.T) mount.Interface { return mount.New(mount.Config{}) }
				volumetest.TestPlugin(t, config)
			}
		})
	}
}

func TestContractFake(t *testing.T) {
	t.Setenv("TMPDIR", testbed.Memory())
	for name := range kinds {
		t.Run(name, func(t *testing.T) { volumetest.TestPlugin(t, contractConfig(name)) })
	}
}

func contractConfig(name string) volumetest.Config[*testing.T] {
	kind := kinds[name]
	var volumes atomic.Int32
	invalid := map[string]*volume.Spec{}
	for what, source := range kind.invalid {
		invalid[what] = volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: source})
	}
	return volumetest.Config[*testing.T]{
		New: func(_ *testing.T, _ volume.VolumeHost, m mount.Interface) volume.VolumePlugin {
			return kind.make(contractGetter().withMounter(m))
		},
		Spec: func(*testing.T) *volume.Spec {
			return volume.NewSpecFromVolume(&v1.Volume{
				Name:         fmt.Sprintf("v-%d", volumes.Add(1)),
				VolumeSource: *kind.good.DeepCopy(),
			})
		},
		Unsupported: []*volume.Spec{
			volume.NewSpecFromVolume(&v1.Volume{Name: "v"}),
			volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}),
			volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}, false),
		},
		Invalid:         invalid,
		Arguments:       volumetest.Arguments{FsUser: volumetest.Honoured, FsGroup: volumetest.Honoured},
		SELinuxRelabel:  true,
		Plain:           kind.plain,
		Ephemeral:       true,
		RuntimeReadOnly: true,
	}
}

type getter struct{ *content.MapGetter }

func (g getter) withMounter(m mount.Interface) content.Config {
	config := g.Config()
	config.Mounter, config.Certificates = m, certificates{}
	return config
}

func contractGetter() getter {
	g := getter{&content.MapGetter{}}
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	g.SetConfigMap(&v1.ConfigMap{ObjectMeta: meta("config"), Data: map[string]string{"color": "blue"}})
	g.SetSecret(&v1.Secret{ObjectMeta: meta("login"), StringData: map[string]string{"user": "u", "password": "p"}})
	g.SetToken("default", "default", []byte("token"))
	g.SetTrustBundle("bundle", []byte("PEM"))
	return g
}

// badItems are wrong in all that have items.
var badItems = map[string]v1.KeyToPath{
	"no key":        {Path: "a"},
	"no path":       {Key: "a"},
	"absolute":      {Key: "a", Path: "/etc/passwd"},
	"up":            {Key: "a", Path: "../a"},
	"up in between": {Key: "a", Path: "a/../../b"},
	"the set":       {Key: "a", Path: "..data"},
	"the volume":    {Key: "a", Path: "."},
	"NUL":           {Key: "a", Path: "a\x00b"},
	"long":          {Key: "a", Path: strings.Repeat("a", 256)},
	"very long":     {Key: "a", Path: strings.Repeat("a/", 1<<16)},
	"mode":          {Key: "a", Path: "a", Mode: ptr[int32](0o1000)},
	"negative mode": {Key: "a", Path: "a", Mode: ptr[int32](-1)},
}

// badNames are not those of API objects.
var badNames = map[string]string{
	"no name": "", "path": "a/b", "dots": "..", "case": "A", "escape": "a\x1b[0m", "query": "a?b", "long name": strings.Repeat("a", 1<<16),
}

func invalidConfigMaps() map[string]v1.VolumeSource {
	all := map[string]v1.VolumeSource{}
	for what, item := range badItems {
		all[what] = configMap(v1.KeyToPath{Key: "color", Path: "fine"}, item)
	}
	for what, name := range badNames {
		all[what] = v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: name}}}
	}
	bad := configMap()
	bad.ConfigMap.DefaultMode = ptr[int32](0o10000)
	all["default mode"] = bad
	return all
}

func invalidSecrets() map[string]v1.VolumeSource {
	all := map[string]v1.VolumeSource{}
	for what, item := range badItems {
		all[what] = secret(item)
	}
	for what, name := range badNames {
		all[what] = v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: name}}
	}
	return all
}

func invalidDownward() map[string]v1.VolumeSource {
	all := map[string]v1.VolumeSource{}
	for what, item := range badItems {
		if item.Key == "" {
			continue
		}
		bad := fieldItem(item.Path, "metadata.name")
		bad.Mode = item.Mode
		all[what] = downward(bad)
	}
	for what, of := range map[string]string{
		"no field": "", "other field": "spec.nodeName", "status": "status.podIP", "subscript": "metadata.name['x']",
		"empty subscript": "metadata.labels['']", "bad subscript": "metadata.labels['a b']", "open": "metadata.labels['a'",
		"nested": "metadata.labels['a']['b']", "case": "Metadata.name", "long field": strings.Repeat("a", 1<<16),
		"long subscript": "metadata.labels['" + strings.Repeat("a", 1<<16) + "']",
	} {
		all[what] = downward(fieldItem("a", of))
	}
	for what, item := range map[string]v1.DownwardAPIVolumeFile{
		"neither":      {Path: "a"},
		"both":         {Path: "a", FieldRef: fieldItem("a", "metadata.name").FieldRef, ResourceFieldRef: &v1.ResourceFieldSelector{}},
		"version":      {Path: "a", FieldRef: &v1.ObjectFieldSelector{APIVersion: "v2", FieldPath: "metadata.name"}},
		"no container": {Path: "a", ResourceFieldRef: &v1.ResourceFieldSelector{Resource: "limits.cpu"}},
		"container":    resourceItem("a", "who", "limits.cpu", ""),
		"resource":     resourceItem("a", "", "limits.gpu", ""),
		"of":           resourceItem("a", "", "wishes.cpu", ""),
		"divisor":      resourceItem("a", "", "limits.cpu", "1Mi"),
	} {
		all[what] = downward(item)
	}
	return all
}

func invalidProjected() map[string]v1.VolumeSource {
	all := map[string]v1.VolumeSource{}
	for what, source := range map[string]v1.VolumeProjection{
		"no source":     {},
		"two sources":   {Secret: &v1.SecretProjection{}, ConfigMap: &v1.ConfigMapProjection{}},
		"configMap":     {ConfigMap: &v1.ConfigMapProjection{}},
		"secret":        {Secret: &v1.SecretProjection{}},
		"downwardAPI":   {DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{{}}}},
		"token":         {ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "/token"}},
		"no bundle":     {ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: "a"}},
		"two bundles":   {ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr("a"), SignerName: ptr("b"), Path: "a"}},
		"selector":      {ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr("a"), LabelSelector: &metav1.LabelSelector{}, Path: "a"}},
		"bundle's path": {ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: ptr("a"), Path: ".."}},
		"same path":     {ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "./deep//password"}},
		"no file":       certificateOrNone("", "", ""),
		"one file":      certificateOrNone("", "a", "./a"),
	} {
		bad := projectedFromAllSources()
		bad.Projected.Sources = append(bad.Projected.Sources, source)
		all[what] = bad
	}
	mode := projectedFromAllSources()
	mode.Projected.DefaultMode = ptr[int32](-1)
	all["default mode"] = mode
	return all
}

// TestDivisors are about containers, which the contract's pods lack.
func TestDivisors(t *testing.T) {
	n := newNode(t)
	for _, test := range []struct {
		of, divisor string
		ok          bool
	}{
		{"limits.cpu", "1", true}, {"limits.cpu", "1m", true}, {"limits.cpu", "1k", false}, {"limits.cpu", "2", false},
		{"limits.memory", "1Ki", true}, {"limits.memory", "1m", false}, {"requests.memory", "1024", true},
		{"limits.hugepages-2Mi", "1Mi", true}, {"limits.hugepages-2Mi", "-1", false}, {"limits.memory", "3", false},
	} {
		_, err := n.newMounter(downward(resourceItem("a", "main", test.of, test.divisor)))
		want := "refused"
		if test.ok {
			want = "accepted"
		}
		if (err == nil) != test.ok {
			t.Errorf("%s in %s is not %s: %v", test.of, test.divisor, want, err)
		}
	}
}
