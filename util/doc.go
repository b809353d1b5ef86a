// Package util has small functions for volume plugins and the programs around them:
// unmounting ([UnmountMountPoint]), mount options and access modes, the unique names of
// volumes, and whether a volume matches a claim ([MatchVolume]).
//
// Larger subjects have packages below: podvolume, safepath, keylock. The names are those of
// k8s.io/kubernetes/pkg/volume/util; functions with a mounter or a path have signatures of
// their own.
package util
