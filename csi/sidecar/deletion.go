package sidecar

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/input"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inUse is the code of DeleteVolume for a volume that is in use.
const inUse = codes.FailedPrecondition

// deletionSecret returns the Secret of DeleteVolume: that of the annotations, or for a volume without them that
// of its class.
func (p *provisioner) deletionSecret(ctx context.Context, pv *v1.PersistentVolume) (*v1.SecretReference, error) {
	name, hasName := pv.Annotations[deletionSecretNameAnnotation]
	namespace, hasNamespace := pv.Annotations[deletionSecretNamespaceAnnotation]
	switch {
	case name != "" && namespace != "":
		return &v1.SecretReference{Name: name, Namespace: namespace}, nil
	case hasName && hasNamespace, pv.Spec.ClaimRef == nil, pv.Spec.StorageClassName == "":
		return nil, nil
	}
	class, err := p.cluster.StorageClasses().Get(ctx, pv.Spec.StorageClassName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read storage class %s: %w", input.Shorten(pv.Spec.StorageClassName), err)
	case class.Provisioner != p.driver.name:
		return nil, nil
	}
	parameters, err := parseParameters(class.Parameters)
	if err != nil {
		return nil, err
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: pv.Spec.ClaimRef.Name, Namespace: pv.Spec.ClaimRef.Namespace}}
	return parameters.secrets[forProvisioner].resolve(pv.Name, claim)
}

// secretsForDeletion returns the data of the Secret of DeleteVolume.
func (p *provisioner) secretsForDeletion(ctx context.Context, ref *v1.SecretReference) (map[string]string, error) {
	return remainingSecretsOf(ctx, p.cluster, ref)
}
