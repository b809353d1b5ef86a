package content

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// The getters are where bytes come from. They are called in SetUp, from any goroutine,
// and return soon after ctx ends. That something is missing they say by an error that
// apierrors.IsNotFound knows, of k8s.io/apimachinery/pkg/api/errors, as clients and
// listers do: an optional source is empty then. After any error the old files stay, and
// SetUp may be called again, unless the error wraps volume.ErrNotSupported; it is part of
// the error of SetUp, so it must not hold a secret. What is returned is not changed.
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

// A TokenGetter makes tokens of the service account of a pod. It is asked at each SetUp:
// it is for the getter to keep a token for as long as that lasts.
type TokenGetter interface {
	GetServiceAccountToken(ctx context.Context, pod *v1.Pod, source *v1.ServiceAccountTokenProjection) ([]byte, error)
}

// A TrustBundleGetter knows ClusterTrustBundles. It returns certificates as PEM, and
// always in the same order, or the file changes each time.
type TrustBundleGetter interface {
	GetTrustBundle(ctx context.Context, source *v1.ClusterTrustBundleProjection) ([]byte, error)
}

// A CertificateGetter makes certificates for pods. It is asked at each SetUp: it is for
// the getter to keep one for as long as that lasts.
type CertificateGetter interface {
	GetPodCertificate(ctx context.Context, pod *v1.Pod, source *v1.PodCertificateProjection) (Certificate, error)
}

// A Certificate is a private key and the chain that belongs to it, as PEM. Formatting
// it, with whatever verb, or as JSON, shows neither.
type Certificate struct {
	Key, Chain []byte
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
