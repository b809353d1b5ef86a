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

// TestErrorsNameFields checks that an error names the refused field as the volume spells it.
func TestErrorsNameFields(t *testing.T) {
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
	} {
		for range 10 { // the first one in order, not any one
			_, err := n.newMounter(test.source)
			require.Equal(t, "spec.volume."+test.field, fieldOf(t, err), "%v", err)
		}
	}
}

// TestErrorNamesOneFault: of several faults the error names the first, in one line.
func TestErrorNamesOneFault(t *testing.T) {
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) { c.TrustBundles, c.Tokens = nil, nil })
	for _, wrong := range []v1.VolumeProjection{
		{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{}}, projectedToken("", ptr[int64](1), ""),
	} {
		_, err := n.newMounter(projected(wrong))
		require.ErrorIs(t, err, volume.ErrNotSupported)
		require.NotContains(t, err.Error(), "\n")
	}
}

// TestSamePath checks that two items of a volume with one source may have the same path, as
// the API server permits.
func TestSamePath(t *testing.T) {
	n := newNode(t)
	source := configMap(v1.KeyToPath{Key: "color", Path: "x"}, v1.KeyToPath{Key: "size", Path: "x"})
	require.Equal(t, map[string]string{"x": "3"}, n.setUpAndRead(t, source, args{}))
	n.tearDown(t, source)
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

// TestBundles: a trust bundle has a valid name, or a signer with a valid selector.
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

// recordingTokens records the requested life of a token.
type recordingTokens struct{ seconds int64 }

func (a *recordingTokens) GetServiceAccountToken(_ context.Context, _ *v1.Pod, s *v1.ServiceAccountTokenProjection) ([]byte, error) {
	a.seconds = *s.ExpirationSeconds
	return []byte("token"), nil
}

// TestDefaults checks that getters receive the API server's defaults for unset fields, and
// that the volume source stays unchanged.
func TestDefaults(t *testing.T) {
	var asked recordingTokens
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) { c.Tokens = &asked })
	source := projected(projectedToken("a", nil, ""))
	before := source.DeepCopy()
	n.setUpAndRead(t, source, args{})
	require.Equal(t, int64(3600), asked.seconds)
	require.Equal(t, *before, source)
	n.tearDown(t, source)

	source.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds = ptr[int64](601)
	n.setUpAndRead(t, source, args{})
	require.Equal(t, int64(601), asked.seconds)
	n.tearDown(t, source)
}
