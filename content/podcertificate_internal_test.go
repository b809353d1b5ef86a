package content

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkCertificate checks a sound source that has been changed.
func checkCertificate(change func(*PodCertificateProjection)) error {
	c := &PodCertificateProjection{SignerName: "example.com/signer", KeyType: "ED25519", CredentialBundlePath: "both.pem"}
	change(c)
	return (&checker{paths: newPaths(true)}).certificate(field.NewPath("podCertificate"), c)
}

// TestCertificateFields: the field that is refused is named.
func TestCertificateFields(t *testing.T) {
	life := func(seconds int32) func(*PodCertificateProjection) {
		return func(c *PodCertificateProjection) { c.MaxExpirationSeconds = &seconds }
	}
	paths := func(both, key, chain string) func(*PodCertificateProjection) {
		return func(c *PodCertificateProjection) {
			c.CredentialBundlePath, c.KeyPath, c.CertificateChainPath = both, key, chain
		}
	}
	for _, test := range []struct {
		field  string // empty: none
		change func(*PodCertificateProjection)
	}{
		{"", func(*PodCertificateProjection) {}},
		{"", life(3600)},
		{"", life(7862400)},
		{"", paths("", "a", "b")},
		{"signerName", func(c *PodCertificateProjection) { c.SignerName = "" }},
		{"keyType", func(c *PodCertificateProjection) { c.KeyType = "RSA512" }},
		{"maxExpirationSeconds", life(3599)},
		{"maxExpirationSeconds", life(7862401)},
		{"keyPath", paths("ok", "/a", "/b")},
		{"credentialBundlePath", paths("/x", "/a", "/b")},
		{"credentialBundlePath", paths("", "", "")},
		{"certificateChainPath", paths("", "a", "./a")},
	} {
		err := checkCertificate(test.change)
		if test.field == "" {
			require.NoError(t, err)
			continue
		}
		var refused *field.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "podCertificate."+test.field, refused.Field, "%v", err)
	}
}

// TestUserAnnotations passes to a signer the annotations that the API permits.
func TestUserAnnotations(t *testing.T) {
	annotated := func(annotations map[string]string) error {
		return checkCertificate(func(c *PodCertificateProjection) { c.UserAnnotations = annotations })
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
		var refused *field.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "podCertificate.userAnnotations", refused.Field, "%v", err)
		require.NotContains(t, err.Error(), "secret")
		require.Less(t, len(err.Error()), 1024)
	}
}

// A newerCertificate is that of an API that has one field more.
type newerCertificate struct {
	PodCertificateProjection `json:",inline"`

	Hardware string `json:"hardware,omitempty"`
}

// TestReadCertificate reads it from types of older and newer Kubernetes.
func TestReadCertificate(t *testing.T) {
	seconds := int32(3600)
	written := PodCertificateProjection{
		SignerName: "a", KeyType: "b", MaxExpirationSeconds: &seconds, CredentialBundlePath: "c", KeyPath: "d",
		CertificateChainPath: "e", UserAnnotations: map[string]string{"f": "g"},
	}
	type older struct{ Secret *string }
	type same struct{ PodCertificate *PodCertificateProjection }
	type newer struct{ PodCertificate *newerCertificate }
	for _, test := range []struct {
		projection any
		want       *PodCertificateProjection
	}{
		{older{}, nil},
		{same{}, nil},
		{same{&written}, &written},
		{newer{&newerCertificate{PodCertificateProjection: written}}, &written},
	} {
		got, err := podCertificate(test.projection)
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
	_, err := podCertificate(newer{&newerCertificate{Hardware: "token"}})
	require.ErrorIs(t, err, volume.ErrNotSupported)
	require.ErrorContains(t, err, "hardware")
}

// TestCertificateIsAFile: a part of the volume that is a file of a certificate is mounted
// on a file.
func TestCertificateIsAFile(t *testing.T) {
	var source v1.VolumeProjection
	require.NoError(t, json.Unmarshal([]byte(`{"podCertificate": {"keyPath": "deep/key.pem"}}`), &source))
	if reflect.ValueOf(source).IsZero() {
		mounttest.SkipWithout(t, "podcertificates", "the linked k8s.io/api is older than v0.34")
	}
	names := fileNamesOf(&v1.Volume{VolumeSource: v1.VolumeSource{
		Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{source}}}})
	require.True(t, names.has("deep/key.pem"))
	require.False(t, names.has("deep"))
	require.False(t, names.has("."), "a path that is not given")
}
