package content

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// The getters are where bytes come from. They are called in SetUp, from any goroutine,
// and return soon after ctx ends. That something is missing they say by an error that
// apierrors.IsNotFound knows, of k8s.io/apimachinery/pkg/api/errors, as clients and
// listers do: an optional source is empty then. After any error the old files stay, and
// SetUp may be called again, unless the error wraps volume.ErrNotSupported; it is part of
// the error of SetUp, so it must not hold a secret. Nothing without an error, such as no
// object, an empty token, a certificate without its key, or no trust bundle where it is not
// optional, is an error, too. What is returned is not changed.
// Sources are complete: what the API server sets if it is missing, such as the hour that
// tokens last, is set.

// A ConfigMapGetter knows ConfigMaps.
type ConfigMapGetter interface {
	GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// A SecretGetter knows Secrets.
type SecretGetter interface {
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// A TokenGetter makes tokens of the service account of a pod. It is asked at each SetUp,
// and nobody else knows when a token ends: it is for the getter to keep one for its pod,
// audience and life (or each SetUp makes a new one and writes it), and to return another
// before that ends. The kubelet renews a token when 80 % of its life is over or it is
// older than 24 hours, whichever comes first, and goes on with the old one as long as it
// lasts if no new one is to be had. A pod sees the new token after the next SetUp. So that
// one comes in time, call SetUp again and again while the volume is up, more often than a
// fifth of the shortest life, which is two minutes for the least that the API allows
// (manager.Config.Refresh is a minute by default). The example is such a getter.
type TokenGetter interface {
	GetServiceAccountToken(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error)
}

// A TrustBundleGetter knows ClusterTrustBundles. It returns certificates as PEM, and
// always in the same order, or the file changes each time.
type TrustBundleGetter interface {
	GetTrustBundle(ctx context.Context, source *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// A CertificateGetter makes certificates for pods. It is asked at each SetUp, and is to
// keep and renew them as a [TokenGetter] does tokens: before they end, when 80 % of their
// life is over or the signer says so (beginRefreshAt of a PodCertificateRequest). The key is
// renewed along with the chain.
type CertificateGetter interface {
	GetPodCertificate(ctx context.Context, pod *v1.Pod, source *v1.PodCertificateProjection) (Certificate, error)
}

// A Certificate is a private key and the chain that belongs to it, as PEM. Formatting
// it, with whatever verb, or as JSON, shows neither.
type Certificate struct {
	Key, Chain []byte
}

// bundle is both in one file. What begins a block of PEM begins a line.
func (c Certificate) bundle() []byte {
	between := ""
	if !bytes.HasSuffix(c.Key, []byte("\n")) {
		between = "\n"
	}
	return slices.Concat(c.Key, []byte(between), c.Chain)
}

// Format implements [fmt.Formatter].
func (Certificate) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, "content.Certificate") }

// MarshalJSON writes what Format does.
func (Certificate) MarshalJSON() ([]byte, error) { return []byte(`"content.Certificate"`), nil }

// A NodeGetter knows what pods may use of the node: what limits.cpu and the like are for
// a container that has none.
type NodeGetter interface {
	GetNodeAllocatable(ctx context.Context) (v1.ResourceList, error)
}
