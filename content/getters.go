package content

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// The getters supply the bytes of volumes. SetUp calls them, from any goroutine; they return
// soon after ctx ends. The error of a missing object satisfies volume.IsNotFound: an optional
// source is then empty. After any error the old files stay, and SetUp may be called again, unless the
// error wraps volume.ErrNotSupported; the error becomes part of SetUp's, so it must not hold
// a secret. An empty result without an error is an error, too: no object, an empty token, a
// certificate without its key, no trust bundle that is not optional. SetUp does not change
// results. Sources are complete: the API server's defaults, such as the hour that tokens
// last, are set.

// A ConfigMapGetter returns ConfigMaps.
type ConfigMapGetter interface {
	GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error)
}

// A SecretGetter returns Secrets.
type SecretGetter interface {
	GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error)
}

// A TokenGetter returns tokens for the service account of a pod. Each SetUp calls it. The
// getter caches tokens by pod, audience and lifetime (else each SetUp creates a token and
// writes it), and returns a new one before the old one expires. The kubelet renews a token
// when 80 % of its life is over or it is older than 24 hours, whichever comes first, and
// keeps the old one until it expires if no new one can be had. A pod sees a new token after
// the next SetUp: call SetUp periodically while the volume is set up, more often than a
// fifth of the shortest life, which is two minutes for the minimum that the API allows
// (manager.Config.Refresh is a minute by default). The example is such a getter.
type TokenGetter interface {
	GetServiceAccountToken(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error)
}

// A TrustBundleGetter returns ClusterTrustBundles: certificates as PEM, always in the same
// order, or the file changes with each SetUp.
type TrustBundleGetter interface {
	GetTrustBundle(ctx context.Context, source *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// A CertificateGetter returns certificates for pods. Each SetUp calls it. Like a
// [TokenGetter] it caches and renews them: before they expire, when 80 % of their life is
// over or at the signer's time (beginRefreshAt of a PodCertificateRequest). The key is
// renewed along with the chain.
type CertificateGetter interface {
	GetPodCertificate(ctx context.Context, pod *v1.Pod, source *PodCertificateProjection) (Certificate, error)
}

// A Certificate is a private key and its certificate chain, as PEM. Formatting it, with any
// verb or as JSON, shows neither.
type Certificate struct {
	Key, Chain []byte
}

// bundle returns key and chain for one file, each beginning on a line of its own.
func (c Certificate) bundle() []byte {
	between := ""
	if !bytes.HasSuffix(c.Key, []byte("\n")) {
		between = "\n"
	}
	return slices.Concat(c.Key, []byte(between), c.Chain)
}

// Format implements [fmt.Formatter].
func (Certificate) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, "content.Certificate") }

// MarshalJSON returns the text of Format.
func (Certificate) MarshalJSON() ([]byte, error) { return []byte(`"content.Certificate"`), nil }

// A NodeGetter returns the node's allocatable resources, which are the limits (limits.cpu
// and the like) of a container without limits.
type NodeGetter interface {
	GetNodeAllocatable(ctx context.Context) (v1.ResourceList, error)
}
