package content

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func (c *collector) downwardAPI(ctx context.Context, source *v1.DownwardAPIProjection) error {
	for _, item := range source.Items {
		text, err := "", error(nil)
		if item.FieldRef != nil {
			text, err = podField(c.pod, item.FieldRef.FieldPath)
		} else {
			text, err = c.resource(ctx, item.ResourceFieldRef)
		}
		if err != nil {
			return fmt.Errorf("file %q: %w", item.Path, err)
		}
		c.put(item.Path, []byte(text), item.Mode)
	}
	return nil
}

// subscript splits metadata.labels['key'].
func subscript(fieldPath string) (of, key string, ok bool) {
	rest, ok := strings.CutSuffix(fieldPath, "']")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, "['")
}

// podField returns the value of a pod's field. A missing label or annotation is empty.
func podField(pod *v1.Pod, fieldPath string) (string, error) {
	if of, key, ok := subscript(fieldPath); ok {
		switch of {
		case "metadata.labels":
			return pod.Labels[key], nil
		case "metadata.annotations":
			return pod.Annotations[key], nil
		}
	}
	switch fieldPath {
	case "metadata.name":
		return pod.Name, nil
	case "metadata.namespace":
		return pod.Namespace, nil
	case "metadata.uid":
		return string(pod.UID), nil
	case "metadata.labels":
		return lines(pod.Labels), nil
	case "metadata.annotations":
		return lines(pod.Annotations), nil
	}
	return "", fmt.Errorf("fieldPath %s: not a field that volumes support", input.Quote(fieldPath))
}

// lines returns a line for each key, sorted.
func lines(of map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(of)) {
		all = append(all, fmt.Sprintf("%s=%q", key, of[key]))
	}
	return strings.Join(all, "\n")
}

// badFieldPath returns the fault of a field path, or "".
func badFieldPath(fieldPath string) string {
	if of, key, ok := subscript(fieldPath); ok && (of == "metadata.labels" || of == "metadata.annotations") {
		if of == "metadata.annotations" {
			key = strings.ToLower(key)
		}
		return strings.Join(input.Problems(validation.IsQualifiedName, key), "; ")
	}
	if _, err := podField(&v1.Pod{}, fieldPath); err != nil {
		return "a volume has metadata.name, metadata.namespace, metadata.uid, metadata.labels and " +
			"metadata.annotations, of the latter two also one: metadata.labels['key']"
	}
	return ""
}
