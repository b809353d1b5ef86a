package sidecar

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/csi/internal/secretdata"
	"github.com/volumekit/volumekit/internal/notfound"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// creationSecrets are the secrets of a call of CreateVolume.
type creationSecrets struct {
	data    map[string]string
	missing error // the Secret that the call lacks does not exist
}

// secretsOfCreation returns the secrets of a call. A call for a volume that may exist does without a Secret that was
// deleted: the driver says whether it needs one.
func (p *provisioner) secretsOfCreation(ctx context.Context, ref *v1.SecretReference, mayExist bool) (s creationSecrets, err error) {
	s.data, err = secretsOf(ctx, p.cluster, ref)
	if mayExist && apierrors.IsNotFound(err) {
		return creationSecrets{missing: err}, nil
	}
	return s, err
}

// secretsOf returns the data of a Secret for a call; none for nil. An error is transient, and has no part of
// the data.
func secretsOf(ctx context.Context, cluster api.SecretsGetter, ref *v1.SecretReference) (map[string]string, error) {
	if ref == nil {
		return nil, nil
	}
	secret, err := cluster.Secrets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, volume.AsTransient(notfound.Named("secret "+ref.Namespace+"/"+ref.Name, err))
	}
	return secretdata.Of(secret)
}

// remainingSecretsOf returns the data of a Secret for a call that ends the use of a volume, and none for a Secret that
// was deleted before: the driver says whether it needs one.
func remainingSecretsOf(ctx context.Context, cluster api.SecretsGetter, ref *v1.SecretReference) (map[string]string, error) {
	secrets, err := secretsOf(ctx, cluster, ref)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return secrets, err
}
