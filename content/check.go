package content

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A checker validates a volume and stops at the first fault.
type checker struct {
	Config
	kind  kind
	pod   *v1.Pod
	paths paths
}

// check validates a volume for a pod.
func (p *Plugin) check(source *v1.ProjectedVolumeSource, pod *v1.Pod) error {
	at := field.NewPath("spec", "volume", p.kind.field)
	if err := checkMode(at.Child("defaultMode"), source.DefaultMode); err != nil {
		return err
	}
	k := &checker{Config: p.config, kind: p.kind, pod: pod, paths: newPaths(p.kind.many)}
	for i, s := range source.Sources {
		if err := k.source(at, i, s); err != nil {
			return err
		}
	}
	return nil
}

func (k *checker) source(at *field.Path, i int, s v1.VolumeProjection) error {
	names := sourcesSet(s)
	if k.kind.many {
		at = at.Child("sources").Index(i)
	}
	if len(names) != 1 {
		return field.Invalid(at, len(names), "must have one source")
	}
	if k.kind.many {
		at = at.Child(names[0])
	}
	switch {
	case s.ConfigMap != nil:
		return cmp.Or(
			k.configured(at, "ConfigMaps", k.ConfigMaps),
			k.object(at.Child(k.kind.name), s.ConfigMap.Name),
			k.items(at, s.ConfigMap.Items))
	case s.Secret != nil:
		return cmp.Or(
			k.configured(at, "Secrets", k.Secrets),
			k.object(at.Child(k.kind.name), s.Secret.Name),
			k.items(at, s.Secret.Items))
	case s.DownwardAPI != nil:
		return k.downwardAPI(at, s.DownwardAPI.Items)
	case s.ServiceAccountToken != nil:
		return cmp.Or(k.configured(at, "Tokens", k.Tokens), k.token(at, s.ServiceAccountToken))
	case s.ClusterTrustBundle != nil:
		return cmp.Or(k.configured(at, "TrustBundles", k.TrustBundles), k.trustBundle(at, s.ClusterTrustBundle))
	}
	switch certificate, err := podCertificate(s); {
	case err != nil:
		return fmt.Errorf("%s: %w", at, err)
	case certificate != nil:
		return cmp.Or(k.configured(at, "Certificates", k.Certificates), k.certificate(at, certificate))
	}
	return fmt.Errorf("%s: %w", at, volume.ErrNotSupported)
}

// sourcesSet returns the names of the sources that are set. It reads the linked API type by
// reflection, so that a source of a newer Kubernetes does not look like an empty one.
func sourcesSet(s v1.VolumeProjection) (names []string) {
	for all, i := reflect.ValueOf(s), 0; i < all.NumField(); i++ {
		if f := all.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() {
			name, _, _ := strings.Cut(all.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// configured requires the getter of a field.
func (k *checker) configured(at *field.Path, name string, getter any) error {
	if getter == nil {
		return fmt.Errorf("%w: %w", field.Forbidden(at, "content.Config."+name+" is missing"), volume.ErrNotSupported)
	}
	return nil
}

// object validates the name of an API object: a getter may make it part of a path.
func (k *checker) object(at *field.Path, name string) error {
	if in := k.pod.Namespace; in != "" && len(input.Problems(validation.IsDNS1123Label, in)) > 0 {
		return volume.Invalid(field.NewPath("pod", "metadata", "namespace"), in, "not a namespace")
	}
	if reasons := input.Problems(validation.IsDNS1123Subdomain, name); len(reasons) > 0 {
		return volume.Invalid(at, name, strings.Join(reasons, "; "))
	}
	return nil
}

func (k *checker) items(at *field.Path, items []v1.KeyToPath) error {
	for i, item := range items {
		at := at.Child("items").Index(i)
		if item.Key == "" {
			return field.Required(at.Child("key"), "an item needs a key")
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

// path validates the path of a file in the volume.
func (k *checker) path(at *field.Path, name string) error {
	var refused *atomicdir.InputError
	if err := atomicdir.CheckName(name); errors.As(err, &refused) {
		return volume.Invalid(at, name, refused.Reason)
	}
	if reason := k.paths.add(name); reason != "" {
		return volume.Invalid(at, name, reason)
	}
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
		if err := k.downwardItem(at, item); err != nil {
			return err
		}
	}
	return nil
}

// downwardItem validates one item of the downward API.
func (k *checker) downwardItem(at *field.Path, item v1.DownwardAPIVolumeFile) error {
	if (item.FieldRef == nil) == (item.ResourceFieldRef == nil) {
		return field.Required(at, "needs one of fieldRef and resourceFieldRef")
	}
	if ref := item.FieldRef; ref != nil {
		at := at.Child("fieldRef")
		if ref.APIVersion != "" && ref.APIVersion != "v1" {
			return volume.Invalid(at.Child("apiVersion"), ref.APIVersion, "must be v1")
		}
		if reason := badFieldPath(ref.FieldPath); reason != "" {
			return volume.Invalid(at.Child("fieldPath"), ref.FieldPath, reason)
		}
		return nil
	}
	at = at.Child("resourceFieldRef")
	if name, value, reason := badResource(item.ResourceFieldRef, k.pod); reason != "" {
		return volume.Invalid(at.Child(name), value, reason)
	}
	if needsNode(item.ResourceFieldRef, k.pod) {
		return k.configured(at, "Node", k.Node)
	}
	return nil
}

func checkMode(at *field.Path, mode *int32) error {
	if mode != nil && (*mode < 0 || *mode > 0o777) {
		return field.Invalid(at, *mode, "must be from 0 to 0777")
	}
	return nil
}
