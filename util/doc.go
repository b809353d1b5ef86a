// Package util holds the few small things that volume plugins and the programs
// around them share and that have no better room: taking mounts down, volumes that
// are one mount in a pod ([PodMounts]), mount options, access modes and volume modes.
//
// What is a subject of its own is a package below: safepath, keylock. Users of
// k8s.io/kubernetes/pkg/volume/util find the names that they know here; those
// that take a mounter or a path are in their own words.
package util
