package naming

import (
	"slices"

	"github.com/volumekit/volumekit/internal/persistent"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A UIDSet is a set of UIDs of pods.
type UIDSet = persistent.Map[types.UID, struct{}]

// A NameSet is a set of unique volume names.
type NameSet = persistent.Map[v1.UniqueVolumeName, struct{}]

// A NameMap maps each key to several unique volume names. The slices are immutable.
type NameMap[K comparable] = persistent.Map[K, []v1.UniqueVolumeName]

// A StorageMap maps storage to the unique names of its volumes.
type StorageMap = NameMap[Storage]

// WithName returns the map with one more name for a key. The names of a key are sorted, so
// that they do not depend on the order of the changes.
func WithName[K comparable](of NameMap[K], at K, name v1.UniqueVolumeName) NameMap[K] {
	names := of.Get(at)
	i, _ := slices.BinarySearch(names, name)
	return of.With(at, slices.Insert(slices.Clone(names), i, name))
}

// WithoutName returns the map without one name of a key.
func WithoutName[K comparable](of NameMap[K], at K, name v1.UniqueVolumeName) NameMap[K] {
	others := slices.DeleteFunc(slices.Clone(of.Get(at)), func(other v1.UniqueVolumeName) bool { return other == name })
	if len(others) == 0 {
		return of.Without(at)
	}
	return of.With(at, others)
}
