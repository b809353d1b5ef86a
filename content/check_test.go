package content_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// fieldOf returns the field that is refused.
func fieldOf(t *testing.T, err error) string {
	t.Helper()
	var refused *field.Error
	require.ErrorAs(t, err, &refused)
	return refused.Field
}

func projectedConfigMap(items ...v1.KeyToPath) v1.VolumeProjection {
	return v1.VolumeProjection{ConfigMap: &v1.ConfigMapProjection{
		LocalObjectReference: v1.LocalObjectReference{Name: "config"}, Items: items,
	}}
}

func projectedFields(items ...v1.DownwardAPIVolumeFile) v1.VolumeProjection {
	return v1.VolumeProjection{DownwardAPI: &v1.DownwardAPIProjection{Items: items}}
}

func projectedToken(path string, seconds *int64, audience string) v1.VolumeProjection {
	return v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{
		Path: path, ExpirationSeconds: seconds, Audience: audience,
	}}
}

func projectedCertificate(change func(*v1.PodCertificateProjection)) v1.VolumeProjection {
	c := certificate("both.pem", "", "")
	change(c)
	return v1.VolumeProjection{PodCertificate: c}
}

// TestFields: what is refused is named as the volume has it.
func TestFields(t *testing.T) {
	n := newNode(t)
	item := func(path string) v1.KeyToPath { return v1.KeyToPath{Key: "color", Path: path} }
	name := fieldItem("name", "metadata.name")
	for _, test := range []struct {
		field  string
		source v1.VolumeSource
	}{
		{"configMap.name", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}},
		{"configMap.items[1].path", configMap(item("a"), item("../x"))},
		{"configMap.items[1].path", configMap(item("a"), item("a/b"))},
		{"secret.secretName", v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "A B"}}},
		{"secret.items[0].key", secret(v1.KeyToPath{Path: "a"})},
		{"downwardAPI.items[0].fieldRef.fieldPath", downward(fieldItem("a", "spec"))},
		{"downwardAPI.items[0].resourceFieldRef.containerName", downward(resourceItem("a", "who", "limits.cpu", ""))},
		{"projected.sources[0]", projected(v1.VolumeProjection{})},
		{"projected.sources[1].secret.name", projected(projectedConfigMap(), v1.VolumeProjection{Secret: &v1.SecretProjection{}})},
		{"projected.sources[0].configMap.items[0].path", projected(projectedConfigMap(item("../x")))},
		{"projected.sources[0].configMap.items[1].path", projected(projectedConfigMap(item("x"), item("./x")))},
		{"projected.sources[1].downwardAPI.items[0].path", projected(projectedConfigMap(item("name")), projectedFields(name))},
		{"projected.sources[1].downwardAPI.items[0].path", projected(projectedConfigMap(item("name/is")), projectedFields(name))},
		{"projected.sources[1].configMap.items[0].path", projected(projectedFields(name), projectedConfigMap(item("name/is/deep")))},
		{"projected.sources[0].serviceAccountToken.path", projected(projectedToken("", nil, ""))},
		{"projected.sources[0].serviceAccountToken.expirationSeconds", projected(projectedToken("a", ptr[int64](599), ""))},
		{"projected.sources[0].serviceAccountToken.audience", projected(projectedToken("a", nil, "x\x00"))},
		{"projected.sources[0].podCertificate.signerName", projected(projectedCertificate(func(c *v1.PodCertificateProjection) { c.SignerName = "" }))},
		{"projected.sources[0].podCertificate.keyType", projected(projectedCertificate(func(c *v1.PodCertificateProjection) { c.KeyType = "RSA512" }))},
		{"projected.sources[0].podCertificate.maxExpirationSeconds", projected(projectedCertificate(func(c *v1.PodCertificateProjection) { c.MaxExpirationSeconds = ptr[int32](3599) }))},
		{"projected.sources[0].podCertificate.maxExpirationSeconds", projected(projectedCertificate(func(c *v1.PodCertificateProjection) { c.MaxExpirationSeconds = ptr[int32](7862401) }))},
		{"projected.sources[0].podCertificate.keyPath", projected(v1.VolumeProjection{PodCertificate: certificate("ok", "/a", "/b")})},
		{"projected.sources[0].podCertificate.credentialBundlePath", projected(v1.VolumeProjection{PodCertificate: certificate("/x", "/a", "/b")})},
	} {
		for range 10 { // the first one in order, not any one
			_, err := n.newMounter(test.source)
			require.Equal(t, "spec.volume."+test.field, fieldOf(t, err), "%v", err)
		}
	}
}

// TestFirstOfAll that is wrong is said, in one line.
func TestFirstOfAll(t *testing.T) {
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) { c.TrustBundles, c.Tokens = nil, nil })
	for _, wrong := range []v1.VolumeProjection{
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}, projectedToken("", ptr[int64](1), ""),
	} {
		_, err := n.newMounter(projected(wrong))
		require.ErrorIs(t, err, volume.ErrNotSupported)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestUserAnnotations: a signer is told what the API lets a pod say.
func TestUserAnnotations(t *testing.T) {
	n := newNode(t)
	annotated := func(annotations map[string]string) error {
		_, err := n.newMounter(projected(projectedCertificate(func(c *v1.PodCertificateProjection) {
			c.UserAnnotations = annotations
		})))
		return err
	}
	full := strings.Repeat("x", 256<<10-len("example.com/key"))
	for _, good := range []map[string]string{
		nil, {}, {"example.com/key": "any \x00 text", "Example.COM/Key": ""}, {"example.com/key": full},
	} {
		require.NoError(t, annotated(good))
	}
	for _, bad := range []map[string]string{
		{"key": "secret"}, {"": "secret"}, {"/key": "secret"}, {"example.com/": "secret"}, {"a/b/c": "secret"},
		{"example.com/a b": "secret"}, {"example.com/\x00": "secret"}, {strings.Repeat("a", 1<<20) + "/b": "secret"},
		{"example.com/key": full, "a.b/c": ""}, {"example.com/a": "", "bad": "secret"},
	} {
		err := annotated(bad)
		require.Equal(t, "spec.volume.projected.sources[0].podCertificate.userAnnotations", fieldOf(t, err), "%v", err)
		require.NotContains(t, err.Error(), "secret")
		require.Less(t, len(err.Error()), 1024)
	}
}

// TestSamePath: items of a volume of one source may have it, as the API lets them.
func TestSamePath(t *testing.T) {
	n := newNode(t)
	source := configMap(v1.KeyToPath{Key: "color", Path: "x"}, v1.KeyToPath{Key: "size", Path: "x"})
	require.Equal(t, map[string]string{"x": "3"}, n.up(t, source, args{}))
	n.down(t, source)
}

func TestTokens(t *testing.T) {
	n := newNode(t)
	accepted := func(s v1.VolumeProjection) bool {
		_, err := n.newMounter(projected(s))
		return err == nil
	}
	for _, seconds := range []int64{-1 << 63, -1, 0, 1, 599, 1<<32 + 1, 1 << 40} {
		require.False(t, accepted(projectedToken("a", &seconds, "")), seconds)
	}
	for _, seconds := range []int64{600, 3600, 1 << 32} {
		require.True(t, accepted(projectedToken("a", &seconds, "")), seconds)
	}
	for _, audience := range []string{"a\nb", "a\x00", "\xff", "a\u0085", strings.Repeat("a", 4097)} {
		require.False(t, accepted(projectedToken("a", nil, audience)), audience)
	}
	for _, audience := range []string{"", "https://example.com/x?y=ü", strings.Repeat("a", 4096)} {
		require.True(t, accepted(projectedToken("a", nil, audience)), audience)
	}
}

func TestBundles(t *testing.T) {
	n := newNode(t)
	accepted := func(name, signer *string) bool {
		_, err := n.newMounter(projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{
			Name: name, SignerName: signer, Path: "a",
		}}))
		return err == nil
	}
	long := strings.Repeat("a", 254)
	for _, name := range []string{"", "../x", "A", "a:b", "example.com:signer:", "example.com:signer:x/y", "a:b:c:d", long} {
		require.False(t, accepted(&name, nil), name)
	}
	for _, name := range []string{"bundle", "example.com:ns.signer:name-1"} {
		require.True(t, accepted(&name, nil), name)
	}
	for _, signer := range []string{"", "signer", "example.com/", "/x", "example.com/a/b", "example.com/..", long + "/a", "a/" + strings.Repeat("b.", 285) + "b"} {
		require.False(t, accepted(nil, &signer), signer)
	}
	require.True(t, accepted(nil, ptr("example.com/ns.signer")))

	_, err := n.newMounter(projected(v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{
		SignerName: ptr("example.com/signer"), Path: "a",
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"not a key": ""}},
	}}))
	require.Contains(t, fieldOf(t, err), "spec.volume.projected.sources[0].clusterTrustBundle.labelSelector.")
}

// asked remembers for how long tokens and certificates were asked to last.
type asked struct{ token, certificate int64 }

func (a *asked) GetServiceAccountToken(_ context.Context, _ *v1.Pod, s *v1.ServiceAccountTokenProjection) ([]byte, error) {
	a.token = *s.ExpirationSeconds
	return []byte("token"), nil
}

func (a *asked) GetPodCertificate(_ context.Context, _ *v1.Pod, s *v1.PodCertificateProjection) (content.Certificate, error) {
	a.certificate = int64(*s.MaxExpirationSeconds)
	return content.Certificate{Key: []byte("key"), Chain: []byte("chain")}, nil
}

// TestDefaults: getters are asked for what the API server makes of nothing, and the volume
// stays as the pod has it.
func TestDefaults(t *testing.T) {
	var a asked
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) { c.Tokens, c.Certificates = &a, &a })
	source := projected(projectedToken("a", nil, ""), projectedCertificate(func(*v1.PodCertificateProjection) {}))
	before := source.DeepCopy()
	n.up(t, source, args{})
	require.Equal(t, asked{3600, 86400}, a)
	require.Equal(t, *before, source)
	n.down(t, source)

	source.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds = ptr[int64](601)
	source.Projected.Sources[1].PodCertificate.MaxExpirationSeconds = ptr[int32](3601)
	n.up(t, source, args{})
	require.Equal(t, asked{601, 3601}, a)
	n.down(t, source)
}
