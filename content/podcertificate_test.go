package content_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
)

func certificate(both, key, chain string) *content.PodCertificateProjection {
	return &content.PodCertificateProjection{
		SignerName: "example.com/signer", KeyType: "ED25519",
		CredentialBundlePath: both, KeyPath: key, CertificateChainPath: chain,
	}
}

// certificateSource decodes the source as a pod's manifest has it. It reports whether the
// linked k8s.io/api has the field: v0.34 and newer.
func certificateSource(c *content.PodCertificateProjection) (v1.VolumeProjection, bool) {
	text, err := json.Marshal(map[string]any{"podCertificate": c})
	if err != nil {
		panic(err)
	}
	var source v1.VolumeProjection
	if err := json.Unmarshal(text, &source); err != nil {
		panic(err)
	}
	return source, !reflect.ValueOf(source).IsZero()
}

// certificateOrNone is a source without any content on an API that lacks the field, which
// is refused just as well.
func certificateOrNone(both, key, chain string) v1.VolumeProjection {
	source, _ := certificateSource(certificate(both, key, chain))
	return source
}

func projectedCertificate(t *testing.T, c *content.PodCertificateProjection) v1.VolumeSource {
	t.Helper()
	source, ok := certificateSource(c)
	if !ok {
		mounttest.SkipWithout(t, "podcertificates", "the linked k8s.io/api is older than v0.34")
	}
	return projected(source)
}

// TestCertificateOfLinkedAPI: volumes are written with the linked API, and their certificate
// is read.
func TestCertificateOfLinkedAPI(t *testing.T) {
	n := newNode(t)
	source := projectedCertificate(t, certificate("both.pem", "key.pem", "chain.pem"))
	require.Equal(t, map[string]string{
		"both.pem": "hush-key\nchain\n", "key.pem": "hush-key\n", "chain.pem": "chain\n",
	}, n.setUpAndRead(t, source, args{}))
	n.tearDown(t, source)

	_, err := n.newMounter(projectedCertificate(t, certificate("/x", "a", "b")))
	require.Equal(t, "spec.volume.projected.sources[0].podCertificate.credentialBundlePath", fieldOf(t, err))
}

// TestUnknownCertificate checks that a podCertificate source is refused if the linked API
// lacks the field: it has no content then.
func TestUnknownCertificate(t *testing.T) {
	source, ok := certificateSource(certificate("both.pem", "", ""))
	_, err := newNode(t).newMounter(projected(source))
	if ok {
		require.NoError(t, err)
		return
	}
	require.Equal(t, "spec.volume.projected.sources[0]", fieldOf(t, err))
}

// recordingCertificates records the projections that it was called with.
type recordingCertificates struct {
	source content.PodCertificateProjection
}

func (a *recordingCertificates) GetPodCertificate(_ context.Context, _ *v1.Pod, s *content.PodCertificateProjection) (content.Certificate, error) {
	a.source = *s
	return content.Certificate{Key: []byte("key"), Chain: []byte("chain")}, nil
}

// TestCertificateDefaults: the getter has the whole source, and a life where the volume
// says none; the volume stays as the pod has it.
func TestCertificateDefaults(t *testing.T) {
	var asked recordingCertificates
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) { c.Certificates = &asked })
	written := certificate("both.pem", "key.pem", "chain.pem")
	for given, want := range map[*int32]int32{nil: 86400, ptr[int32](3601): 3601} {
		written.MaxExpirationSeconds = given
		source := projectedCertificate(t, written)
		before := source.DeepCopy()
		n.setUpAndRead(t, source, args{})
		require.Equal(t, *before, source)
		whole := *written
		whole.MaxExpirationSeconds = &want
		require.Equal(t, whole, asked.source)
		n.tearDown(t, source)
	}
}

// unended are certificates whose key does not end its line.
type unended struct{}

func (unended) GetPodCertificate(context.Context, *v1.Pod, *content.PodCertificateProjection) (content.Certificate, error) {
	encode := func(kind string) []byte {
		return bytes.TrimSpace(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("x")}))
	}
	return content.Certificate{Key: encode("PRIVATE KEY"), Chain: encode("CERTIFICATE")}, nil
}

// TestKeyAndChainInOneFile checks that the file for key and chain holds the key and then the chain as
// separate PEM blocks, also if the getter's key does not end its line.
func TestKeyAndChainInOneFile(t *testing.T) {
	n := nodeIn(t, t.TempDir(), mounttest.NewFake(mount.Config{}), func(c *content.Config) {
		c.Certificates = unended{}
	})
	both := n.setUpAndRead(t, projectedCertificate(t, certificate("both.pem", "", "")), args{})["both.pem"]
	for rest, kind := []byte(both), ""; ; {
		block, after := pem.Decode(rest)
		if block == nil {
			require.Equal(t, "CERTIFICATE", kind, "the last one")
			break
		}
		require.NotEqual(t, block.Type, kind)
		rest, kind = after, block.Type
	}
	require.Equal(t, 1, strings.Count(both, "-----BEGIN PRIVATE KEY-----\n"))
	require.Equal(t, 1, strings.Count(both, "\n-----BEGIN CERTIFICATE-----\n"))
}
