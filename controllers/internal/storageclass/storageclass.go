// Package storageclass reads the fields of storage classes, and selects the class of a claim.
package storageclass

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// DefaultAnnotation of a class has the value "true" for a default class. Classes of older clusters have
// BetaDefaultAnnotation instead.
const (
	DefaultAnnotation     = "storageclass.kubernetes.io/is-default-class"
	BetaDefaultAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// Named returns the name of the class of a claim. The name "" requests a volume without a
// class. isSet is false for a claim that receives the default class.
func Named(claim *v1.PersistentVolumeClaim) (name string, isSet bool) {
	if name, ok := claim.Annotations[v1.BetaStorageClassAnnotation]; ok {
		return name, true
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName, true
	}
	return "", false
}

// Default returns the newest default class, the first one by name of several, or nil.
func Default(classes []*storagev1.StorageClass) (newest *storagev1.StorageClass) {
	for _, class := range classes {
		if IsDefault(class) && (newest == nil || isPreferred(class, newest)) {
			newest = class
		}
	}
	return newest
}

// IsDefault reports whether a class is a default class.
func IsDefault(class *storagev1.StorageClass) bool {
	return class.Annotations[DefaultAnnotation] == "true" || class.Annotations[BetaDefaultAnnotation] == "true"
}

// isPreferred reports whether the default class a has priority over the default class b.
func isPreferred(a, b *storagev1.StorageClass) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return b.CreationTimestamp.Before(&a.CreationTimestamp)
}

// WaitsForConsumer reports whether the volumes of a class are provisioned for a selected node.
func WaitsForConsumer(class *storagev1.StorageClass) bool {
	return class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
}

// PolicyOf returns the reclaim policy of the volumes of a class.
func PolicyOf(class *storagev1.StorageClass) v1.PersistentVolumeReclaimPolicy {
	if class.ReclaimPolicy == nil {
		return v1.PersistentVolumeReclaimDelete
	}
	return *class.ReclaimPolicy
}

// IsAllowed reports whether the topologies that a class allows include a node. A class without
// topologies allows all nodes.
func IsAllowed(class *storagev1.StorageClass, node *v1.Node) bool {
	return len(class.AllowedTopologies) == 0 || slices.ContainsFunc(class.AllowedTopologies, func(term v1.TopologySelectorTerm) bool {
		return !slices.ContainsFunc(term.MatchLabelExpressions, func(r v1.TopologySelectorLabelRequirement) bool {
			value, ok := node.Labels[r.Key]
			return !ok || !slices.Contains(r.Values, value)
		})
	})
}
