package node

import (
	"slices"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// references are the objects that the volumes of a pod name.
type references struct {
	claims, configMaps, secrets map[api.Key]bool
	bundles                     map[bundleKey]bool
	node                        bool // the node, for its allocatable resources
}

// referencesOf returns the references of a pod; nil has none. Those with a namespace are in the
// namespace of the pod.
func referencesOf(pod *v1.Pod) references {
	r := references{claims: map[api.Key]bool{}, configMaps: map[api.Key]bool{}, secrets: map[api.Key]bool{}, bundles: map[bundleKey]bool{}}
	if pod == nil {
		return r
	}
	add := func(to map[api.Key]bool, name string) {
		if name != "" {
			to[api.Key{Namespace: pod.Namespace, Name: name}] = true
		}
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			add(r.claims, v.PersistentVolumeClaim.ClaimName)
		case v.Ephemeral != nil:
			add(r.claims, pod.Name+"-"+v.Name)
		case v.ConfigMap != nil:
			add(r.configMaps, v.ConfigMap.Name)
		case v.Secret != nil:
			add(r.secrets, v.Secret.SecretName)
		case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
			add(r.secrets, v.CSI.NodePublishSecretRef.Name)
		case v.DownwardAPI != nil:
			r.node = r.node || hasResource(v.DownwardAPI.Items)
		case v.Projected != nil:
			for _, source := range v.Projected.Sources {
				r.addProjection(source, add)
			}
		}
	}
	return r
}

// addProjection adds the references of a source of a projected volume.
func (r *references) addProjection(source v1.VolumeProjection, add func(to map[api.Key]bool, name string)) {
	if source.ConfigMap != nil {
		add(r.configMaps, source.ConfigMap.Name)
	}
	if source.Secret != nil {
		add(r.secrets, source.Secret.Name)
	}
	if source.DownwardAPI != nil {
		r.node = r.node || hasResource(source.DownwardAPI.Items)
	}
	if source.ClusterTrustBundle != nil {
		if key, ok := bundleKeyOf(source.ClusterTrustBundle); ok {
			r.bundles[key] = true
		}
	}
}

// hasResource reports whether files show a resource of a container, whose limit may be that of the
// node.
func hasResource(items []v1.DownwardAPIVolumeFile) bool {
	return slices.ContainsFunc(items, func(item v1.DownwardAPIVolumeFile) bool { return item.ResourceFieldRef != nil })
}
