package httpapi

import (
	"encoding/json"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// textOf returns what the server says of itself at a path: its health, and its version, which is that of the API with
// the kinds that it serves.
func textOf(path string) (text []byte, ok bool) {
	switch path {
	case "/healthz", "/livez", "/readyz":
		return []byte("ok"), true
	case "/version":
		text, err := json.Marshal(version.Info{Major: "1", Minor: "32", GitVersion: "v1.32.0", Platform: "memory/any"})
		return text, err == nil
	}
	return nil, false
}

// document returns the discovery document at a path.
func (h *handler) document(path string) (document runtime.Object, ok bool) {
	switch path = strings.TrimSuffix(path, "/"); path {
	case "/api":
		return &metav1.APIVersions{Versions: []string{"v1"}}, true
	case "/apis":
		return &metav1.APIGroupList{Groups: h.groups()}, true
	}
	for _, group := range h.groups() {
		if path == "/apis/"+group.Name {
			return &group, true
		}
	}
	if t, parsed := parseTarget(path); parsed && t.resource == "" {
		list := h.resourceList(t.GroupVersion)
		return list, len(list.APIResources) > 0
	}
	return nil, false
}

// groups returns the groups with their versions, newest first, without the core.
func (h *handler) groups() (groups []metav1.APIGroup) {
	for _, r := range h.resources {
		if r.gvk.Group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: r.gvk.GroupVersion().String(), Version: r.gvk.Version}
		i := slices.IndexFunc(groups, func(g metav1.APIGroup) bool { return g.Name == r.gvk.Group })
		switch {
		case i < 0:
			groups = append(groups, metav1.APIGroup{Name: r.gvk.Group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		case !slices.Contains(groups[i].Versions, version):
			groups[i].Versions = append(groups[i].Versions, version)
		}
	}
	return groups
}

// resourceList returns the resources of a version and their subresources.
func (h *handler) resourceList(version schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{GroupVersion: version.String()}
	for _, r := range h.resources {
		if r.gvk.GroupVersion() != version {
			continue
		}
		served := metav1.APIResource{
			Name: r.name, SingularName: strings.ToLower(r.gvk.Kind), Namespaced: r.namespaced, Kind: r.gvk.Kind,
			Verbs: metav1.Verbs{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"},
		}
		if r.short != "" {
			served.ShortNames = []string{r.short}
		}
		list.APIResources = append(list.APIResources, served)
		for _, name := range r.subresources() {
			sub := metav1.APIResource{Name: r.name + "/" + name, Namespaced: r.namespaced, Kind: r.gvk.Kind, Verbs: metav1.Verbs{"get", "patch", "update"}}
			if name == token {
				sub.Kind, sub.Group, sub.Version, sub.Verbs = "TokenRequest", "authentication.k8s.io", "v1", metav1.Verbs{"create"}
			}
			list.APIResources = append(list.APIResources, sub)
		}
	}
	return list
}
