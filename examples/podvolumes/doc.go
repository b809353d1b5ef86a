// Podvolumes mounts the volumes of a pod, shows them, uses them as a container would, and
// takes them down again: the volume lifecycle from a manifest to the kernel and back.
//
//	go run ./examples/podvolumes
//
// It needs no preparation and no root: an ordinary user's volumes are mounted in a user and
// mount namespace of the program's own. Root's are mounted for the whole machine to see.
// Where neither may mount, the same happens on an in-memory kernel, and each line of the
// output says so.
//
// # Manifests
//
// A manifest is YAML or JSON, as package manifests reads it: one Pod, and the
// PersistentVolumeClaims, PersistentVolumes, ConfigMaps and Secrets that it uses. The
// built-in one (pod.yaml) has a volume of each kind, and is a start for one of your own:
//
//	go run ./examples/podvolumes -f FILE -disks /mnt/disks
//
// A securityContext with fsGroup or runAsUser takes root. There is no cluster: a
// clusterTrustBundle or podCertificate is refused, and a serviceAccountToken is made up.
//
// The author of a manifest must not reach all of the machine with it: local and hostPath
// volumes are accepted below the directories of -disks, and nowhere else; with -devices,
// which needs root, a hostPath may be a device.
//
// # Keeping volumes
//
// With -keep, which needs root, the volumes stay up. A second run takes them down, from the
// names on disk and the mount table alone, as it does after a run that was killed:
//
//	go run ./examples/podvolumes -down -root DIR
//
// The exit status is 0, 2 if the command line was wrong, and 1 after all other errors and
// after an interrupt. In each case the program takes down all that it has set up.
package main
