package manifests

import (
	"fmt"

	"github.com/volumekit/volumekit/internal/apidefaults"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// complete applies the API server's defaults to an object, and refuses names that the API
// server refuses.
func complete(object metav1.Object) error {
	if _, ok := object.(*list); ok {
		return nil // its objects are completed separately
	}
	if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	switch object := object.(type) {
	case *v1.PersistentVolume:
		return completeVolume(object)
	case *v1.Pod:
		apidefaults.Pod(object)
		return checkPod(object)
	case *v1.Secret:
		return completeSecret(object)
	case *v1.ConfigMap:
		return checkConfigMap(object)
	}
	return checkMeta(object)
}

var metadataPath = field.NewPath("metadata")

// checkMeta returns an error unless the API server accepts the name, namespace and UID.
func checkMeta(object metav1.Object) error {
	name, namespace := object.GetName(), object.GetNamespace()
	if name == "" {
		return field.Required(metadataPath.Child("name"), "every object has a name")
	}
	if problems := input.Problems(validation.IsDNS1123Subdomain, name); len(problems) > 0 {
		return field.Invalid(metadataPath.Child("name"), brief.Name(name), problems[0])
	}
	if problems := input.Problems(validation.IsDNS1123Label, namespace); namespace != "" && len(problems) > 0 {
		return field.Invalid(metadataPath.Child("namespace"), brief.Name(namespace), problems[0])
	}
	if uid := string(object.GetUID()); uid != "" {
		return volume.ValidatePathComponent(metadataPath.Child("uid"), uid)
	}
	return nil
}

func completeVolume(pv *v1.PersistentVolume) error {
	if pv.Namespace != metav1.NamespaceDefault {
		return field.Invalid(metadataPath.Child("namespace"), brief.Name(pv.Namespace), "a PersistentVolume is in no namespace")
	}
	pv.Namespace = ""
	if ref := pv.Spec.ClaimRef; ref != nil && ref.Namespace == "" {
		ref.Namespace = metav1.NamespaceDefault
	}
	return checkMeta(pv)
}

// maxContent limits the data of a ConfigMap or Secret, in bytes.
const maxContent = 1 << 20

func completeSecret(secret *v1.Secret) error {
	if err := checkMeta(secret); err != nil {
		return err
	}
	size := 0
	for key, value := range secret.StringData {
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		secret.Data[key] = []byte(value)
	}
	secret.StringData = nil
	for key, value := range secret.Data {
		if input.Problems(validation.IsConfigMapKey, key) != nil { // the key may be a misplaced value: it is not shown
			return field.Invalid(field.NewPath("data"), field.OmitValueType{}, "a key is not valid")
		}
		size += len(value)
	}
	return checkSize(size)
}

func checkConfigMap(config *v1.ConfigMap) error {
	if err := checkMeta(config); err != nil {
		return err
	}
	size := 0
	for key, value := range config.Data {
		if err := checkKey("data", key); err != nil {
			return err
		}
		if _, ok := config.BinaryData[key]; ok {
			return field.Invalid(field.NewPath("data").Key(brief.Name(key)), field.OmitValueType{}, "also in binaryData")
		}
		size += len(value)
	}
	for key, value := range config.BinaryData {
		if err := checkKey("binaryData", key); err != nil {
			return err
		}
		size += len(value)
	}
	return checkSize(size)
}

func checkKey(in, key string) error {
	if problems := input.Problems(validation.IsConfigMapKey, key); len(problems) > 0 {
		return field.Invalid(field.NewPath(in), brief.Name(key), problems[0])
	}
	return nil
}

// checkSize refuses data of a ConfigMap or Secret larger than maxContent.
func checkSize(size int) error {
	if size > maxContent {
		return field.TooLong(field.NewPath("data"), field.OmitValueType{}, maxContent)
	}
	return nil
}

func checkPod(pod *v1.Pod) error {
	if err := checkMeta(pod); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, v := range pod.Spec.Volumes {
		path := field.NewPath("spec", "volumes").Index(i).Child("name")
		if problems := input.Problems(validation.IsDNS1123Label, v.Name); len(problems) > 0 {
			return field.Invalid(path, brief.Name(v.Name), problems[0])
		}
		if seen[v.Name] {
			return field.Duplicate(path, v.Name)
		}
		seen[v.Name] = true
		if err := checkEphemeral(pod, i); err != nil {
			return err
		}
	}
	return checkContainers(pod, seen)
}

func checkEphemeral(pod *v1.Pod, i int) error {
	v := pod.Spec.Volumes[i]
	path := field.NewPath("spec", "volumes").Index(i).Child("ephemeral")
	switch {
	case v.Ephemeral == nil:
		return nil
	case v.PersistentVolumeClaim != nil:
		return field.Forbidden(path, "must have one source")
	case v.Ephemeral.VolumeClaimTemplate == nil:
		return field.Required(path.Child("volumeClaimTemplate"), "an ephemeral volume has a claim")
	}
	name := pod.Name + "-" + v.Name
	if problems := input.Problems(validation.IsDNS1123Subdomain, name); len(problems) > 0 {
		return field.Invalid(path, brief.Name(name), "the name of the claim: "+problems[0])
	}
	return nil
}

// checkContainers checks that the volumes of all mounts and devices of containers are
// volumes of the pod.
func checkContainers(pod *v1.Pod, volumes map[string]bool) error {
	for kind, containers := range map[string][]v1.Container{"initContainers": pod.Spec.InitContainers, "containers": pod.Spec.Containers} {
		for i, c := range containers {
			path := field.NewPath("spec", kind).Index(i)
			for j, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					return missingVolumeError(path.Child("volumeMounts").Index(j), m.Name)
				}
			}
			for j, d := range c.VolumeDevices {
				if !volumes[d.Name] {
					return missingVolumeError(path.Child("volumeDevices").Index(j), d.Name)
				}
			}
		}
	}
	return nil
}

func missingVolumeError(path *field.Path, name string) error {
	return fmt.Errorf("%w: no volume of the pod has this name", field.NotFound(path.Child("name"), brief.Name(name)))
}
