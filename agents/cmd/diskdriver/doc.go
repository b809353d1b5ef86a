// Diskdriver is a CSI driver for disks that are files in a directory that all nodes share, such as an NFS export:
// CreateVolume makes a file for each claim, which grows with the claim, and which one node at a time mounts on a loop
// device. One runs on each node, and one beside the sidecar, which calls it to create, attach and grow disks:
//
//	kubectl apply -f ../sidecar/rbac.yaml -f csidriver.yaml -f daemonset.yaml -f statefulset.yaml
//	go run ./agents/cmd/diskdriver -node-id NAME -disks /srv/disks
//	go run ./agents/cmd/diskdriver -node-id NAME -disks /srv/disks -controller -kubelet-dir /run/csi
//
// A disk has an ext4, or the ext3, xfs or btrfs of the class parameter csi.storage.k8s.io/fstype. The programs that make,
// check and grow it have to be in the driver's image. A claim with the volume mode Block has the loop device itself. The
// files are sparse: together disks may be larger than the directory has space.
//
// Each disk is a directory below -disks with its image and the names of the nodes to which it is attached and which
// use it. Two processes with -controller at the same time could attach a disk to two nodes. The file system has to show
// a node that changes a directory the changes of others in it, as NFS does.
//
// A disk that a node uses is not detached. A node ends the use of disks that have no loop device when the driver
// starts; for a node that does not start any more an administrator makes sure that it is off, and removes the file
// "used" of the disk.
//
// -name, -node-id and -disks must not change while volumes exist. The exit status is 0 if a signal ended the
// program, 2 if the command line is wrong, and 1 otherwise.
package main
