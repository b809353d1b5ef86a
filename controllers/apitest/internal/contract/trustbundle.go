package contract

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/require"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// certificate returns a new certificate as PEM.
func (c *contract) certificate() string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(c, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(c, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// newBundle returns a bundle of a signer with the name of the namespace.
func (c *contract) newBundle(name string) *certificatesv1alpha1.ClusterTrustBundle {
	b := &certificatesv1alpha1.ClusterTrustBundle{ObjectMeta: c.clusterMeta(name)}
	b.Name = "example.com:" + c.namespace + ":" + name
	b.Spec.SignerName, b.Spec.TrustBundle = "example.com/"+c.namespace, c.certificate()
	return b
}

var trustBundleTests = map[string]func(*contract){
	"TrustBundlesBySigner": func(c *contract) {
		bundles := c.Cluster.ClusterTrustBundles()
		create(c, bundles, c.newBundle("a"))
		other := c.newBundle("b")
		other.Name, other.Spec.SignerName = c.namespace+"-b", ""
		create(c, bundles, other)
		of := metav1.ListOptions{FieldSelector: "spec.signerName=example.com/" + c.namespace}
		list, err := bundles.List(c.ctx, of)
		require.NoError(c, err)
		require.Len(c, list.Items, 1)
		require.True(c, strings.HasSuffix(list.Items[0].Name, ":a"))
		of.ResourceVersion = list.ResourceVersion
		w, err := bundles.Watch(c.ctx, of)
		require.NoError(c, err)
		c.Cleanup(w.Stop)
		create(c, bundles, c.newBundle("c"))
		require.Equal(c, "ADDED", string(c.next(w).Type))
	},
	"InvalidTrustBundles": func(c *contract) {
		bundles := c.Cluster.ClusterTrustBundles()
		for name, breaks := range map[string]func(*certificatesv1alpha1.ClusterTrustBundle){
			"no certificate":    func(b *certificatesv1alpha1.ClusterTrustBundle) { b.Spec.TrustBundle = "text" },
			"too large":         func(b *certificatesv1alpha1.ClusterTrustBundle) { b.Spec.TrustBundle += strings.Repeat("x", 1<<20) },
			"bad certificate":   func(b *certificatesv1alpha1.ClusterTrustBundle) { b.Spec.TrustBundle = badCertificate },
			"twice":             func(b *certificatesv1alpha1.ClusterTrustBundle) { b.Spec.TrustBundle += b.Spec.TrustBundle },
			"name of no signer": func(b *certificatesv1alpha1.ClusterTrustBundle) { b.Spec.SignerName = "" },
			"name of another":   func(b *certificatesv1alpha1.ClusterTrustBundle) { b.Spec.SignerName = "example.com/other" },
		} {
			bundle := c.newBundle("a")
			breaks(bundle)
			_, err := bundles.Create(c.ctx, bundle, metav1.CreateOptions{})
			require.Error(c, err, name)
			c.refused(err, metav1.StatusReasonInvalid)
		}
	},
	"SignerIsImmutable": func(c *contract) {
		bundle := create(c, c.Cluster.ClusterTrustBundles(), c.newBundle("a"))
		bundle.Spec.TrustBundle = c.certificate()
		bundle = update(c, c.Cluster.ClusterTrustBundles(), bundle)
		bundle.Spec.SignerName = "example.com/other"
		_, err := c.Cluster.ClusterTrustBundles().Update(c.ctx, bundle, metav1.UpdateOptions{})
		c.refused(err, metav1.StatusReasonInvalid)
	},
}

const badCertificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
