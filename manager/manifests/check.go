package manifests

import (
	"fmt"

	"github.com/volumekit/volumekit/internal/apidefaults"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// complete gives an object what the API server would give it, and refuses names that
// it would refuse.
func complete(object metav1.Object) error {
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

var metadata = field.NewPath("metadata")

// checkMeta accepts the names that the API server accepts.
func checkMeta(object metav1.Object) error {
	name, namespace := object.GetName(), object.GetNamespace()
	if name == "" {
		return field.Required(metadata.Child("name"), "every object has a name")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return field.Invalid(metadata.Child("name"), short(name), problems[0])
	}
	if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
		return field.Invalid(metadata.Child("namespace"), short(namespace), problems[0])
	}
	if uid := string(object.GetUID()); uid != "" {
		return volume.ValidatePathComponent(metadata.Child("uid"), uid)
	}
	return nil
}

func completeVolume(pv *v1.PersistentVolume) error {
	if pv.Namespace != metav1.NamespaceDefault {
		return field.Invalid(metadata.Child("namespace"), short(pv.Namespace), "a PersistentVolume is in no namespace")
	}
	pv.Namespace = ""
	if ref := pv.Spec.ClaimRef; ref != nil && ref.Namespace == "" {
		ref.Namespace = metav1.NamespaceDefault
	}
	return checkMeta(pv)
}

// maxContent is how large the data of a ConfigMap or Secret may be.
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
		if validation.IsConfigMapKey(key) != nil { // somebody may have put the value there
			return field.Invalid(field.NewPath("data"), field.OmitValueType{}, "a key that is none")
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
			return field.Invalid(field.NewPath("data").Key(short(key)), field.OmitValueType{}, "it is in binaryData, too")
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
	if problems := validation.IsConfigMapKey(key); len(problems) > 0 {
		return field.Invalid(field.NewPath(in), short(key), problems[0])
	}
	return nil
}

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
		if problems := validation.IsDNS1123Label(v.Name); len(problems) > 0 {
			return field.Invalid(path, short(v.Name), problems[0])
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
	case v.Ephemeral.VolumeClaimTemplate == nil:
		return field.Required(path.Child("volumeClaimTemplate"), "an ephemeral volume has a claim")
	}
	name := pod.Name + "-" + v.Name
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return field.Invalid(path, short(name), "the name of the claim: "+problems[0])
	}
	return nil
}

// checkContainers sees that what they mount is there. Volumes that no container uses
// are not set up.
func checkContainers(pod *v1.Pod, volumes map[string]bool) error {
	if len(pod.Spec.Containers) == 0 {
		return field.Required(field.NewPath("spec", "containers"), "a pod has one, whose volumeMounts say what is set up")
	}
	for kind, containers := range map[string][]v1.Container{"initContainers": pod.Spec.InitContainers, "containers": pod.Spec.Containers} {
		for i, c := range containers {
			path := field.NewPath("spec", kind).Index(i)
			for j, m := range c.VolumeMounts {
				if !volumes[m.Name] {
					return missing(path.Child("volumeMounts").Index(j), m.Name)
				}
			}
			for j, d := range c.VolumeDevices {
				if !volumes[d.Name] {
					return missing(path.Child("volumeDevices").Index(j), d.Name)
				}
			}
		}
	}
	return nil
}

func missing(path *field.Path, name string) error {
	return fmt.Errorf("%w: no volume of the pod is called so", field.NotFound(path.Child("name"), short(name)))
}
