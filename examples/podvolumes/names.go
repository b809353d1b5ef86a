package main

import (
	"fmt"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// check finds what is wrong between documents: too many of a kind or a name.
func (m *manifest) check() error {
	if len(m.pods) == 0 {
		return fmt.Errorf("%s: kind: Required value: one document is a Pod", m.name)
	}
	if len(m.pods) > 1 {
		return fmt.Errorf("%s: %w", m.pods[1].where, field.Forbidden(field.NewPath("kind"), "one Pod is enough"))
	}
	if err := unique(m.claims); err != nil {
		return err
	}
	if err := unique(m.volumes); err != nil {
		return err
	}
	if err := unique(m.configMaps); err != nil {
		return err
	}
	return unique(m.secrets)
}

var namePath = field.NewPath("metadata", "name")

func unique[T metav1.Object](documents []document[T]) error {
	seen := map[types.NamespacedName]bool{}
	for _, d := range documents {
		name := types.NamespacedName{Namespace: namespaceOf(d.object), Name: d.object.GetName()}
		if seen[name] {
			return fmt.Errorf("%s: %w", d.where, field.Duplicate(namePath, name.Name))
		}
		seen[name] = true
	}
	return nil
}

// namespaceOf returns the namespace of an object that has one.
func namespaceOf(object metav1.Object) string { return namespaceOr(object.GetNamespace()) }

func namespaceOr(namespace string) string {
	if namespace == "" {
		return metav1.NamespaceDefault
	}
	return namespace
}

// setNamespaces gives the pod, and what is to be found in its namespace, the one that
// they are in.
func (m *manifest) setNamespaces() {
	for _, d := range m.pods {
		d.object.Namespace = namespaceOf(d.object)
	}
	for _, d := range m.configMaps {
		d.object.Namespace = namespaceOf(d.object)
	}
	for _, d := range m.secrets {
		d.object.Namespace = namespaceOf(d.object)
	}
}

// checkMeta accepts the names that the API server accepts.
func checkMeta(object metav1.Object) error {
	name, namespace := object.GetName(), object.GetNamespace()
	if name == "" {
		return field.Required(namePath, "every object has a name")
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return field.Invalid(namePath, short(name), problems[0])
	}
	if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
		return field.Invalid(field.NewPath("metadata", "namespace"), short(namespace), problems[0])
	}
	return nil
}

// checkClusterMeta is checkMeta for what is in no namespace.
func checkClusterMeta(object metav1.Object) error {
	if namespace := object.GetNamespace(); namespace != "" {
		return field.Invalid(field.NewPath("metadata", "namespace"), short(namespace),
			"a PersistentVolume is in no namespace")
	}
	return checkMeta(object)
}

// checkPod also gives the pod a UID if it has none: one that is the same next
// time, as the kubelet does for pods from files.
func checkPod(pod *v1.Pod) error {
	if err := checkMeta(pod); err != nil {
		return err
	}
	if pod.UID == "" {
		pod.UID = types.UID(namespaceOf(pod) + "_" + pod.Name)
	}
	if err := volume.ValidatePathComponent(field.NewPath("metadata", "uid"), string(pod.UID)); err != nil {
		return err
	}
	return checkVolumeNames(pod.Spec.Volumes)
}

func checkVolumeNames(volumes []v1.Volume) error {
	seen := map[string]bool{}
	for i, v := range volumes {
		path := volumePath(i).Child("name")
		if problems := validation.IsDNS1123Label(v.Name); len(problems) > 0 {
			return field.Invalid(path, short(v.Name), problems[0])
		}
		if seen[v.Name] {
			return field.Duplicate(path, v.Name)
		}
		seen[v.Name] = true
	}
	return nil
}

func volumePath(i int) *field.Path { return field.NewPath("spec", "volumes").Index(i) }
