package node_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/volume"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// newCertificate returns a new certificate as PEM.
func newCertificate(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IsCA: true, BasicConstraintsValid: true, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// bundle returns a trust bundle with a label; those with a colon in the name are of the signer
// "example.com/ca".
func bundle(name, label, text string) *certificatesv1alpha1.ClusterTrustBundle {
	b := &certificatesv1alpha1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"for": label}}}
	if b.Spec.TrustBundle = text; strings.Contains(name, ":") {
		b.Spec.SignerName = "example.com/ca"
	}
	return b
}

func byBundle(name string) *v1.ClusterTrustBundleProjection {
	return &v1.ClusterTrustBundleProjection{Name: &name, Path: "ca"}
}

// bySigner returns the source of the bundles of example.com/ca with a label.
func bySigner(label string) *v1.ClusterTrustBundleProjection {
	signer := "example.com/ca"
	return &v1.ClusterTrustBundleProjection{SignerName: &signer, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"for": label}}, Path: "ca"}
}

func withBundle(source *v1.ClusterTrustBundleProjection) v1.VolumeSource {
	return v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{ClusterTrustBundle: source}}}}
}

// TestTrustBundles: bundles are selected by name, or by signer and labels; equal certificates appear
// once, in the same order.
func TestTrustBundles(t *testing.T) {
	inWorld(t, func(w *world) {
		one, two, three := newCertificate(t), newCertificate(t), newCertificate(t)
		w.put(bundle("own", "", one), bundle("example.com:ca:a", "web", one+two), bundle("example.com:ca:b", "web", two+"text\n"+three),
			bundle("example.com:ca:c", "mail", three))
		none := bySigner("web")
		none.LabelSelector = nil
		w.put(pod("a", withBundle(byBundle("own")), withBundle(bySigner("web")), withBundle(none), withBundle(byBundle("missing"))))
		w.start()
		text, err := w.GetTrustBundle(w.Context(), byBundle("own"))
		require.NoError(t, err)
		require.Equal(t, one, string(text))
		text, err = w.GetTrustBundle(w.Context(), bySigner("web"))
		require.NoError(t, err)
		for _, certificate := range []string{one, two, three} {
			require.Equal(t, 1, strings.Count(string(text), certificate))
		}
		again, err := w.GetTrustBundle(w.Context(), bySigner("web"))
		require.NoError(t, err)
		require.Equal(t, text, again)
		for _, source := range []*v1.ClusterTrustBundleProjection{none, byBundle("missing")} {
			_, err = w.GetTrustBundle(w.Context(), source)
			require.True(t, volume.IsNotFound(err), "%v", err)
		}
		_, err = w.GetTrustBundle(w.Context(), bySigner("mail"))
		require.ErrorContains(t, err, "used by no pod of node node-1")
		require.False(t, volume.IsNotFound(err))
	})
}

// TestTrustBundlesAreWatchedWhileUsed pins the watches, and the reports of changes.
func TestTrustBundlesAreWatchedWhileUsed(t *testing.T) {
	inWorld(t, func(w *world) {
		w.put(bundle("example.com:ca:a", "web", newCertificate(t)))
		w.start()
		w.put(pod("a", withBundle(bySigner("web"))), pod("b", withBundle(bySigner("web"))), pod("c"))
		synctest.Wait()
		of := "clustertrustbundles spec.signerName=example.com/ca"
		require.Equal(t, []string{of, "pods spec.nodeName=node-1"}, w.watched())
		require.True(t, slices.ContainsFunc(w.server.OpenWatches(""), func(o apitest.OpenWatch) bool { return o.LabelSelector == "for=web" }))
		require.Empty(t, w.takeRemounts(), "the first list")
		w.put(bundle("example.com:ca:b", "web", newCertificate(t)))
		require.Equal(t, []string{"a", "b"}, w.takeRemounts())
		w.put(bundle("example.com:ca:c", "mail", newCertificate(t)))
		require.Empty(t, w.takeRemounts())
		w.remove(bundle("example.com:ca:b", "", ""))
		require.Equal(t, []string{"a", "b"}, w.takeRemounts())
		w.remove(pod("a"))
		synctest.Wait()
		require.Contains(t, w.watched(), of)
		w.remove(pod("b"))
		synctest.Wait()
		require.Equal(t, []string{"pods spec.nodeName=node-1"}, w.watched())
	})
}

// TestNoTrustBundles: an API server without the kind fails the volumes with a bundle at once, also
// optional ones, and no others.
func TestNoTrustBundles(t *testing.T) {
	inWorld(t, func(w *world) {
		missing := apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{}, "", "", 0, true)
		end := w.server.Inject(apitest.Fault{Call: apitest.Call{Resource: "clustertrustbundles"}, Failure: func(apitest.Call) error { return missing }})
		w.put(secret("key", "1"), pod("a", withBundle(byBundle("own")), bySecret("key")))
		w.start()
		before := time.Now()
		_, err := w.GetTrustBundle(w.Context(), byBundle("own"))
		require.ErrorContains(t, err, `clustertrustbundle "own": not read yet`)
		require.False(t, volume.IsNotFound(err), "an optional bundle is not empty")
		require.Zero(t, time.Since(before))
		_, err = w.GetSecret(w.Context(), "ns", "key")
		require.NoError(t, err)

		w.put(bundle("own", "", newCertificate(t)))
		end()
		time.Sleep(time.Minute)
		require.Equal(t, []string{"a"}, w.takeRemounts(), "its set-up has failed")
		_, err = w.GetTrustBundle(w.Context(), byBundle("own"))
		require.NoError(t, err)
	})
}

// TestClusterWithoutTrustBundles: a Cluster need not have a client for them.
func TestClusterWithoutTrustBundles(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Cluster = struct{ node.Cluster }{w.cluster}
		w.put(pod("a", withBundle(byBundle("own"))))
		w.start()
		_, err := w.GetTrustBundle(w.Context(), byBundle("own"))
		require.ErrorContains(t, err, "no client")
		require.False(t, volume.IsNotFound(err))
	})
}

// TestListOfAnUnservedKind: the error 404 of a list is no proof that an object is missing.
func TestListOfAnUnservedKind(t *testing.T) {
	inWorld(t, func(w *world) {
		missing := apierrors.NewGenericServerResponse(404, "list", schema.GroupResource{}, "", "", 0, true)
		w.server.Inject(apitest.Fault{Call: apitest.Call{Resource: "secrets"}, Failure: func(apitest.Call) error { return missing }})
		w.put(secret("key", "1"), pod("a", bySecret("key")))
		w.start()
		_, err := w.GetSecret(w.Context(), "ns", "key")
		require.ErrorContains(t, err, "not read yet")
		require.False(t, volume.IsNotFound(err))
	})
}

// limitOf returns a volume with the limit of the container's processors.
func limitOf(resource string) v1.VolumeSource {
	return v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{{
		Path: "limit", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: resource},
	}}}}
}

// TestAllocatable: the node is watched while a volume shows a resource, and changes of its allocatable
// resources alone are reported.
func TestAllocatable(t *testing.T) {
	inWorld(t, func(w *world) {
		own := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		own.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
		w.put(own)
		w.start()
		_, err := w.GetNodeAllocatable(w.Context())
		require.ErrorContains(t, err, "used by no pod of node node-1")
		inProjection := v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{DownwardAPI: &v1.DownwardAPIProjection{Items: limitOf("limits.memory").DownwardAPI.Items}}}}}
		w.put(pod("a", limitOf("limits.cpu")), pod("b", inProjection), pod("c"))
		synctest.Wait()
		require.Equal(t, []string{"nodes node-1", "pods spec.nodeName=node-1"}, w.watched())
		got, err := w.GetNodeAllocatable(w.Context())
		require.NoError(t, err)
		require.Equal(t, "2", got.Cpu().String())
		w.takeRemounts()

		own.Labels = map[string]string{"zone": "a"}
		w.put(own)
		own.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
		w.put(own)
		require.Empty(t, w.takeRemounts(), "other fields")
		own.Status.Allocatable[v1.ResourceCPU] = resource.MustParse("4")
		w.put(own)
		require.Equal(t, []string{"a", "b"}, w.takeRemounts())
		w.remove(pod("a"), pod("b"))
		synctest.Wait()
		require.Equal(t, []string{"pods spec.nodeName=node-1"}, w.watched())
	})
}
