package httpapi

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A target is what a path names: a group and version, the objects of a resource in a namespace or in all, or
// one object or its subresource. Fields after the last one of the path are empty.
type target struct {
	schema.GroupVersion
	namespace, resource, name, subresource string
}

// parseTarget parses a path below /api or /apis.
func parseTarget(path string) (t target, ok bool) {
	segments := strings.Split(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/")
	if slices.Contains(segments, "") {
		return t, false
	}
	switch {
	case segments[0] == "api" && len(segments) >= 2:
		t.Version, segments = segments[1], segments[2:]
	case segments[0] == "apis" && len(segments) >= 3:
		t.Group, t.Version, segments = segments[1], segments[2], segments[3:]
	default:
		return t, false
	}
	// Below a namespace stand its objects, and the subresources of the namespace itself.
	if len(segments) >= 3 && segments[0] == "namespaces" && segments[2] != status && segments[2] != "finalize" {
		t.namespace, segments = segments[1], segments[2:]
	}
	for _, field := range []*string{&t.resource, &t.name, &t.subresource} {
		if len(segments) == 0 {
			break
		}
		*field, segments = segments[0], segments[1:]
	}
	return t, len(segments) == 0
}
