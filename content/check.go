package content

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A checker finds the first thing that is wrong with a volume.
type checker struct {
	Config
	pod   *v1.Pod
	many  bool            // there are several sources, whose paths must differ
	paths map[string]bool // that have been seen
}

// check accepts a volume for a pod.
func (c Config) check(at *field.Path, source *v1.ProjectedVolumeSource, pod *v1.Pod) error {
	if err := checkMode(at.Child("defaultMode"), source.DefaultMode); err != nil {
		return err
	}
	k := &checker{Config: c, pod: pod, many: len(source.Sources) > 1, paths: map[string]bool{}}
	for i, s := range source.Sources {
		if k.many {
			at = field.NewPath("spec", "volume", "projected", "sources").Index(i)
		}
		if err := k.source(at, s); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) source(at *field.Path, s v1.VolumeProjection) error {
	if n := set(s); n != 1 {
		return field.Invalid(at, n, "there is one source")
	}
	switch {
	case s.ConfigMap != nil:
		return errors.Join(
			k.configured("ConfigMaps", k.ConfigMaps),
			k.object(at.Child("name"), s.ConfigMap.Name),
			k.items(at, s.ConfigMap.Items))
	case s.Secret != nil:
		return errors.Join(
			k.configured("Secrets", k.Secrets),
			k.object(at.Child("name"), s.Secret.Name),
			k.items(at, s.Secret.Items))
	case s.DownwardAPI != nil:
		return k.downwardAPI(at, s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return errors.Join(k.configured("Tokens", k.Tokens), k.path(at.Child("path"), s.ServiceAccountToken.Path))
	case s.ClusterTrustBundle != nil:
		return k.trustBundle(at, s.ClusterTrustBundle)
	default:
		return k.certificate(at, s.PodCertificate)
	}
}

// set returns how many sources are set. It looks at the API type as it is linked, so
// that a source which a newer Kubernetes adds is not taken for none.
func set(s v1.VolumeProjection) (n int) {
	for all, i := reflect.ValueOf(s), 0; i < all.NumField(); i++ {
		if f := all.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			n++
		}
	}
	return n
}

func (k *checker) configured(name string, getter any) error {
	if getter == nil {
		return fmt.Errorf("content: Config.%s is missing: %w", name, volume.ErrNotSupported)
	}
	return nil
}

// object accepts the name of an API object: a getter may make it part of a path.
func (k *checker) object(at *field.Path, name string) error {
	if in := k.pod.Namespace; in != "" && len(validation.IsDNS1123Label(in)) > 0 {
		return volume.Invalid(field.NewPath("pod", "metadata", "namespace"), in, "not a namespace")
	}
	if reasons := validation.IsDNS1123Subdomain(name); len(reasons) > 0 {
		return volume.Invalid(at, name, strings.Join(reasons, "; "))
	}
	return nil
}

func (k *checker) items(at *field.Path, items []v1.KeyToPath) error {
	for i, item := range items {
		at := at.Child("items").Index(i)
		if item.Key == "" {
			return field.Required(at.Child("key"), "an item has a key")
		}
		if err := k.path(at.Child("path"), item.Path); err != nil {
			return err
		}
		if err := checkMode(at.Child("mode"), item.Mode); err != nil {
			return err
		}
	}
	return nil
}

// path accepts that of a file in the volume.
func (k *checker) path(at *field.Path, name string) error {
	var refused *atomicdir.InputError
	if err := atomicdir.CheckName(name); errors.As(err, &refused) {
		return volume.Invalid(at, name, refused.Reason)
	}
	clean := path.Clean(name)
	if k.many && k.paths[clean] {
		return volume.Invalid(at, name, "another source has the same path")
	}
	k.paths[clean] = true
	return nil
}

func (k *checker) downwardAPI(at *field.Path, items []v1.DownwardAPIVolumeFile) error {
	for i, item := range items {
		at := at.Child("items").Index(i)
		if err := k.path(at.Child("path"), item.Path); err != nil {
			return err
		}
		if err := checkMode(at.Child("mode"), item.Mode); err != nil {
			return err
		}
		if err := k.told(at, item); err != nil {
			return err
		}
	}
	return nil
}

// told accepts one thing that a pod is told.
func (k *checker) told(at *field.Path, item v1.DownwardAPIVolumeFile) error {
	if (item.FieldRef == nil) == (item.ResourceFieldRef == nil) {
		return field.Required(at, "one of fieldRef and resourceFieldRef")
	}
	if ref := item.FieldRef; ref != nil {
		at := at.Child("fieldRef")
		if ref.APIVersion != "" && ref.APIVersion != "v1" {
			return volume.Invalid(at.Child("apiVersion"), ref.APIVersion, "a pod is of v1")
		}
		if reason := badFieldPath(ref.FieldPath); reason != "" {
			return volume.Invalid(at.Child("fieldPath"), ref.FieldPath, reason)
		}
		return nil
	}
	if name, value, reason := badResource(item.ResourceFieldRef, k.pod); reason != "" {
		return volume.Invalid(at.Child("resourceFieldRef", name), value, reason)
	}
	return nil
}

func (k *checker) trustBundle(at *field.Path, s *v1.ClusterTrustBundleProjection) error {
	switch {
	case (s.Name == nil) == (s.SignerName == nil):
		return field.Required(at, "one of name and signerName")
	case s.Name != nil && s.LabelSelector != nil:
		return field.Forbidden(at.Child("labelSelector"), "the bundle has a name")
	}
	return errors.Join(k.configured("TrustBundles", k.TrustBundles), k.path(at.Child("path"), s.Path))
}

func (k *checker) certificate(at *field.Path, s *v1.PodCertificateProjection) error {
	if s.CredentialBundlePath == "" && s.KeyPath == "" && s.CertificateChainPath == "" {
		return field.Required(at.Child("credentialBundlePath"), "a certificate is written to a file")
	}
	k.many = true // its own paths must differ, too
	for name, written := range map[string]string{
		"credentialBundlePath": s.CredentialBundlePath,
		"keyPath":              s.KeyPath,
		"certificateChainPath": s.CertificateChainPath,
	} {
		if written == "" {
			continue
		}
		if err := k.path(at.Child(name), written); err != nil {
			return err
		}
	}
	return k.configured("Certificates", k.Certificates)
}

func checkMode(at *field.Path, mode *int32) error {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.Invalid(at, *mode, "permissions are from 0 to 0777")
	}
	return nil
}
