package sidecar

import (
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// A secretTemplate is the name and the namespace of a Secret in a class. Both may have tokens:
//
//	${pv.name} ${pvc.namespace}                       in both
//	${pvc.name} ${pvc.annotations['team.example/k']}  in the name
//
// A tenant chooses the names and the annotations of its claims, but not the namespace: a class whose
// namespace had their tokens would let a tenant use the Secrets of others.
type secretTemplate struct{ name, namespace string }

// resolve returns the reference of a claim's volume, and nil for an empty template. The error wraps no kind.
func (t secretTemplate) resolve(volumeName string, claim *v1.PersistentVolumeClaim) (*v1.SecretReference, error) {
	switch {
	case t == secretTemplate{}:
		return nil, nil
	case t.name == "" || t.namespace == "":
		return nil, errors.New("the class must have both name and namespace of the secret")
	}
	inNamespace := func(token string) (string, bool) {
		switch token {
		case "pv.name":
			return volumeName, true
		case "pvc.namespace":
			return claim.Namespace, true
		}
		return "", false
	}
	namespace, err := expandTemplate(t.namespace, inNamespace)
	if err == nil && len(input.Problems(validation.IsDNS1123Label, namespace)) > 0 {
		err = errNotName(namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("secret namespace %s: %w", input.Quote(t.namespace), err)
	}
	name, err := expandTemplate(t.name, func(token string) (string, bool) {
		if value, ok := inNamespace(token); ok {
			return value, true
		}
		return tenantValue(token, claim)
	})
	if err == nil && len(input.Problems(validation.IsDNS1123Subdomain, name)) > 0 {
		err = errNotName(name)
	}
	if err != nil {
		return nil, fmt.Errorf("secret name %s: %w", input.Quote(t.name), err)
	}
	return &v1.SecretReference{Name: name, Namespace: namespace}, nil
}

func errNotName(value string) error {
	return fmt.Errorf("%s is not the name of an object", input.Quote(value))
}

// tenantValue returns the value of a token that the author of the claim chooses.
func tenantValue(token string, claim *v1.PersistentVolumeClaim) (string, bool) {
	if token == "pvc.name" {
		return claim.Name, true
	}
	key, ok := strings.CutPrefix(token, "pvc.annotations['")
	if !ok {
		return "", false
	}
	if key, ok = strings.CutSuffix(key, "']"); !ok {
		return "", false
	}
	value, ok := claim.Annotations[key]
	return value, ok
}

// longestSecretName is the longest name of an object, in bytes.
const longestSecretName = validation.DNS1123SubdomainMaxLength

// expandTemplate replaces each token ${...} by its value. Values are not expanded again.
func expandTemplate(template string, valueOf func(token string) (string, bool)) (string, error) {
	var out strings.Builder
	for rest := template; ; {
		before, after, found := strings.Cut(rest, "${")
		out.WriteString(before)
		if !found {
			break
		}
		token, behind, closed := strings.Cut(after, "}")
		if !closed {
			return "", errors.New("lacks a closing brace")
		}
		value, ok := valueOf(token)
		if !ok {
			return "", fmt.Errorf("${%s} has no value", input.Shorten(token))
		}
		out.WriteString(value)
		if out.Len() > longestSecretName {
			break
		}
		rest = behind
	}
	if out.Len() > longestSecretName {
		return "", fmt.Errorf("must be at most %d bytes", longestSecretName)
	}
	return out.String(), nil
}
