// Podvolumes mounts the volumes of a pod, shows what they are, and takes them
// down again: the volume lifecycle from a manifest to the kernel and back, on one
// screen of code for each step.
//
//	go run ./examples/podvolumes
//
// It needs no preparation and no root: an ordinary user's volumes are mounted in
// a user and mount namespace of the program's own, where nobody else sees them.
// Root's are mounted for the whole machine to see. Where neither may mount, the
// same happens on an in-memory kernel, and each line of the output says so.
//
// # Manifests
//
// A manifest is YAML: one Pod, and the PersistentVolumeClaims, PersistentVolumes,
// ConfigMaps and Secrets that it uses. The built-in one (pod.yaml) has a volume of each
// kind, and is a start for one of your own:
//
//	go run ./examples/podvolumes -f FILE -disks /mnt/disks
//
// A volume of the pod is an emptyDir (also if no more than its name is said), hostPath,
// configMap, secret, downwardAPI or projected one, or it leads to a persistent volume,
// local or hostPath, through a claim, or through the claim that stands in the pod itself
// (ephemeral.volumeClaimTemplate). Claims are bound by spec.volumeName, or by the
// spec.claimRef of the volume. Nothing is scheduled or provisioned: node affinity,
// storage classes and sizes are not looked at.
//
// Volumes are given to the group that the pod's securityContext names (fsGroup,
// fsGroupChangePolicy), and tokens to its user (runAsUser). That takes root: an ordinary
// user has no other group to give to, and is told so. What else a securityContext says is
// for who runs the containers.
//
// Without a cluster there are no certificates: a projected volume with a
// clusterTrustBundle or podCertificate is refused. A serviceAccountToken is made up, and
// says so; limits that a pod does not have are what this machine has.
//
// Whoever writes a manifest must not reach all of the machine with it, so local
// and hostPath volumes are accepted below the directories that you name with -disks, and
// nowhere else. The built-in manifest brings disks of its own, below -root, which
// are removed in the end.
//
// # Keeping volumes
//
// With -keep, which needs root, the volumes stay up. A second run takes them
// down, from what is on disk and in the mount table alone:
//
//	go run ./examples/podvolumes -down -root DIR
//
// The same removes what a run has left that was killed.
//
// The exit status is 0 if everything was as it should be, 2 if the command line
// was wrong, and 1 otherwise, also after an interrupt. Whatever happens, the
// program takes down what it has set up; -keep is for volumes that are in order.
package main
