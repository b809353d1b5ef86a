package apitest

import (
	"maps"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var dataPath = field.NewPath("data")

var nodeKind = newKind(kind{resource: core("nodes"), status: true}, rules[*v1.Node]{
	fields: map[string]func(*v1.Node) string{
		"spec.unschedulable": func(n *v1.Node) string { return strconv.FormatBool(n.Spec.Unschedulable) },
	},
	prepareUpdate: func(n, old *v1.Node) { n.Status = old.Status },
	prepareStatus: func(n, old *v1.Node) { n.Spec = old.Spec },
})

var namespaceKind = newKind(kind{resource: core("namespaces"), status: true}, rules[*v1.Namespace]{
	fields: map[string]func(*v1.Namespace) string{
		"status.phase": func(n *v1.Namespace) string { return string(n.Status.Phase) },
		"name":         func(n *v1.Namespace) string { return n.Name },
	},
	prepareCreate: func(n *v1.Namespace) {
		n.Status = v1.NamespaceStatus{Phase: v1.NamespaceActive}
		n.Spec.Finalizers = []v1.FinalizerName{v1.FinalizerKubernetes}
	},
	prepareUpdate: func(n, old *v1.Namespace) { n.Status, n.Spec.Finalizers = old.Status, old.Spec.Finalizers },
	prepareStatus: func(n, old *v1.Namespace) { n.Spec = old.Spec },
	setDefaults: func(n *v1.Namespace) {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[v1.LabelMetadataName] = n.Name
	},
	keeps: func(n *v1.Namespace) bool { return len(n.Spec.Finalizers) > 0 },
})

var configMapKind = newKind(kind{resource: core("configmaps"), namespaced: true}, rules[*v1.ConfigMap]{
	validate: func(c *v1.ConfigMap) field.ErrorList {
		errs := validateKeys(c.Data)
		for key := range c.BinaryData {
			if _, twice := c.Data[key]; twice {
				errs = append(errs, field.Invalid(field.NewPath("binaryData").Key(key), key, "duplicate of key present in data"))
			}
		}
		errs = append(errs, validateKeys(c.BinaryData)...)
		return append(errs, validateSize(sizeOf(c.Data)+sizeOf(c.BinaryData), field.NewPath(""))...)
	},
	validateUpdate: func(c, old *v1.ConfigMap) field.ErrorList {
		if !isTrue(old.Immutable) {
			return nil
		}
		return frozen(c.Immutable, equality.Semantic.DeepEqual(c.Data, old.Data) && equality.Semantic.DeepEqual(c.BinaryData, old.BinaryData))
	},
})

var secretKind = newKind(kind{resource: core("secrets"), namespaced: true}, rules[*v1.Secret]{
	fields: map[string]func(*v1.Secret) string{"type": func(s *v1.Secret) string { return string(s.Type) }},
	setDefaults: func(s *v1.Secret) {
		setDefault(&s.Type, v1.SecretTypeOpaque)
		for key, value := range s.StringData {
			if s.Data == nil {
				s.Data = map[string][]byte{}
			}
			s.Data[key] = []byte(value)
		}
		s.StringData = nil
	},
	validate: func(s *v1.Secret) field.ErrorList {
		return append(validateKeys(s.Data), validateSize(sizeOf(s.Data), dataPath)...)
	},
	validateUpdate: func(s, old *v1.Secret) field.ErrorList {
		errs := immutable(s.Type, old.Type, field.NewPath("type"))
		if isTrue(old.Immutable) {
			errs = append(errs, frozen(s.Immutable, equality.Semantic.DeepEqual(s.Data, old.Data))...)
		}
		return errs
	},
})

// mostData is the API server's limit for the size of all values in a ConfigMap or Secret, in bytes.
const mostData = 1 << 20

func sizeOf[V ~string | ~[]byte](data map[string]V) (size int) {
	for value := range maps.Values(data) {
		size += len(value)
	}
	return size
}

func validateSize(size int, path *field.Path) field.ErrorList {
	if size > mostData {
		return field.ErrorList{field.TooLong(path, "", mostData)}
	}
	return nil
}

func validateKeys[V any](data map[string]V) (errs field.ErrorList) {
	for key := range data {
		for _, message := range validation.IsConfigMapKey(key) {
			errs = append(errs, field.Invalid(dataPath.Key(key), key, message))
		}
	}
	return errs
}

func isTrue(value *bool) bool { return value != nil && *value }

// frozen returns the errors of an update of an immutable ConfigMap or Secret. immutable is the
// field in the update; equal states that the data are unchanged.
func frozen(immutable *bool, equal bool) (errs field.ErrorList) {
	if !isTrue(immutable) {
		errs = append(errs, field.Forbidden(field.NewPath("immutable"), "field is immutable when `immutable` is set"))
	}
	if !equal {
		errs = append(errs, field.Forbidden(dataPath, "field is immutable when `immutable` is set"))
	}
	return errs
}

var accountKind = newKind(kind{resource: core("serviceaccounts"), namespaced: true}, rules[*v1.ServiceAccount]{})

var eventKind = newKind(kind{resource: core("events"), namespaced: true}, rules[*v1.Event]{
	fields: map[string]func(*v1.Event) string{
		"involvedObject.kind":            func(e *v1.Event) string { return e.InvolvedObject.Kind },
		"involvedObject.namespace":       func(e *v1.Event) string { return e.InvolvedObject.Namespace },
		"involvedObject.name":            func(e *v1.Event) string { return e.InvolvedObject.Name },
		"involvedObject.uid":             func(e *v1.Event) string { return string(e.InvolvedObject.UID) },
		"involvedObject.apiVersion":      func(e *v1.Event) string { return e.InvolvedObject.APIVersion },
		"involvedObject.resourceVersion": func(e *v1.Event) string { return e.InvolvedObject.ResourceVersion },
		"involvedObject.fieldPath":       func(e *v1.Event) string { return e.InvolvedObject.FieldPath },
		"reason":                         func(e *v1.Event) string { return e.Reason },
		"reportingComponent":             func(e *v1.Event) string { return e.ReportingController },
		"type":                           func(e *v1.Event) string { return e.Type },
		"source": func(e *v1.Event) string {
			if e.Source.Component == "" {
				return e.ReportingController
			}
			return e.Source.Component
		},
	},
	validate: validateEvent,
})

// validateEvent checks that an event lies in the namespace of its object, or in the default one
// for an object without a namespace.
func validateEvent(e *v1.Event) field.ErrorList {
	involved := e.InvolvedObject.Namespace
	if involved == e.Namespace || involved == "" && (e.Namespace == v1.NamespaceDefault || e.Namespace == "kube-system") {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("involvedObject", "namespace"), involved, "does not match event.namespace")}
}
