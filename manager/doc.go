// Package manager is the node's volume manager: an agent says which pods should run
// here, and the manager attaches, mounts, repairs and tears down their volumes, across
// restarts, faults and dead servers.
//
//	m, err := manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: source, Claims: source})
//	go m.Run(ctx)
//	err = m.WaitForAttachAndMount(ctx, pod) // before the pod's containers start
//	...
//	err = m.WaitForVolumes(ctx, pod, manager.WaitOptions{NewContainer: true}) // before one starts again
//	...
//	err = m.WaitForUnmount(ctx, pod) // after the source has removed the pod
//
// # How it works
//
// One goroutine, the loop, decides. The populator resolves the pods of the [PodSource],
// through their claims, to the desired state of the world. The actual state is the sum of
// the outcomes of operations: attached, mounted once for all pods, up in a pod; each
// absent, present, or uncertain. A pure function compares the two and returns the
// operations to start. Operations run in the background, one at a time for each volume,
// and report their outcomes to the loop. The loop sleeps until the source changes, an
// operation ends, a backoff ends, or the mount table changes. Without changes it does
// nothing, except for
//   - a full check at each resync (Config.Resync),
//   - a new set-up, at each refresh, of volumes whose content follows an object of the API,
//     such as a configMap (Config.Refresh),
//   - a check of the attached volumes (Config.AttachCheck).
//
// An undesired volume is torn down before another volume comes up under its name or in its
// directory. A desired volume is attached, mounted once, set up for its pods, and grown. A
// volume that no pod needs is unmounted and detached.
//
// # Glossary
//
//   - desired state: the volumes that the pods of the source need
//   - actual state: the volumes that are, or may be, attached, mounted or up
//   - uncertain: may exist; treated as existing, and as needing a new set-up
//   - unique name: the name of a volume on this node; a shared volume has one for all pods
//   - shared step: attach and device mount, done once for all pods of a volume
//   - device mount: the mount for all pods, at the device mount path; of a block volume,
//     its device after SetUpDevice
//   - set up, tear down: make a volume available in one pod, and undo it
//   - up: set up in a pod
//   - operation: one step of one volume; in-flight operation (flight): one that runs
//   - outcome: the result of an operation
//   - backoff: the growing pause after a failure
//   - lane: the queue and the workers of the operations of one plugin
//   - backend: the server or device that volumes share
//   - demand: the desired volumes of one pod; population: the demands of all pods, indexed
//   - unresolved volume: a volume of a pod whose claim, persistent volume or plugin data
//     could not be read
//   - record: the file that describes an attached or device-mounted volume across restarts
//   - reconstruct: compute the actual state from records and directories
//   - leftover, unrecognized volume: a path or record that no plugin can reconstruct
//   - view: a read-only name of a claim that the pod also writes to
//
// # Guarantees
//
//   - Nothing is torn down before the source has returned all pods once, nor a volume of a
//     pod that the source has, even if the pod's volumes are unresolved.
//   - A volume that is up in a pod stays for the life of the pod, even if its claim is bound
//     to another volume meanwhile, or if the volume is edited, or recreated under its name
//     with another UID, mode, plugin or GetVolumeName. The pod receives an event, and a later
//     pod receives the new volume. (After a restart the claim of a volume that was neither
//     attached nor device-mounted is not known: if the claim is bound to a volume of another
//     name by then, the old one is torn down and the new one set up.)
//   - A claim that is being deleted is usable for the pods that have its volume, while the
//     finalizer kubernetes.io/pvc-protection keeps the claim, and for no other pod. A pod
//     that is being deleted and has never run gets no new volumes.
//   - A claim that a pod names twice, for reading and for writing, is two views of the
//     volume, each in its own directory (podvolume.ViewName). A block device is one device
//     for all names: MountedVolume.ReadOnly marks the read-only names, and the runtime
//     enforces it.
//   - Two volumes never share a directory of a pod or a device mount path: the second waits
//     for the first to go.
//   - Uncertain is treated as mounted: a volume is reported as gone, unmounted or detached
//     only when all above it is certainly gone.
//   - Subpath mounts of containers, by package util/subpath or by the kubelet, are unmounted
//     before the volume is torn down. A subpath that a process of the node keeps busy after
//     the pod is gone is detached, unless that would hide the use of a disk: a device in use
//     is neither detached nor reported as not in use.
//   - Each volume has one in-flight operation, until its work has ended; only tear-downs in
//     several pods run at the same time, while the volume stays attached or device-mounted.
//     Each volume of a pod has one in-flight operation in any case.
//   - A slow plugin delays no other plugin's volumes, nor one slow volume another: see
//     Config.Workers and Config.BackendWorkers.
//   - A failed operation is retried, with growing pauses, while it is needed; a set-up that
//     no pod needs any more is cancelled.
//   - A volume that another process unmounts is mounted again. If another process mounts over
//     a volume, or in its place, the plugin sets the volume up again, which changes nothing
//     if the mount is in order, and fails, with an event, while the foreign mount exists:
//     the manager never unmounts a foreign mount. When the foreign mount has gone the volume
//     is retried at once. (This requires the kernel's unique mount IDs: before Linux 6.8 only
//     missing mount points are detected. After a restart no ID is known, and all volumes are
//     set up again anyway.)
//   - A hostPath volume whose file was replaced on the node stays up as it is, also after a restart,
//     until a container starts (WaitOptions.NewContainer).
//   - A volume that another program detaches is attached again, and its plugin mounts it and
//     sets it up again.
//   - A volume of ReadWriteOncePod is in one pod at a time.
//   - A device mount is writable if one of the pods writes. If it was mounted for pods that
//     only read, the plugin is called to mount it for the writer; if the plugin returns
//     volume.ErrAlreadyMounted, the writer waits until the readers have gone.
//   - A panic of a plugin fails only its operation. A panic of the source fails the read; in
//     Changed and Subscribe, Run returns it as an error.
//
// # Duties of the embedder
//
// The manager gives no volume an SELinux label (volume.MounterArgs.SELinuxLabel is empty),
// also if the pod has SELinuxOptions: where SELinux is enforced the container runtime has to
// relabel volumes, or the plugin to mount them with a context of its own configuration.
//
// # After a restart
//
// The actual state is reconstructed from the directories of the pods, by their plugins, and
// from the manager's records of attached and device-mounted volumes. All of it is uncertain
// at first. Desired volumes are set up again, which changes nothing if they are in order;
// others are torn down. An unrecognized volume stays as it is and is shown as a [Leftover];
// volumes that it may be are neither unmounted for all pods nor detached. A half set-up volume
// that exists only in its pod is torn down by its plugin. Empty directories of pods are
// removed.
//
// The volumes of a stopped kubelet are taken over in the same way, while their pods run. The
// source has to return these pods with their UIDs: once the source has returned its pods, the
// manager tears down the volumes of all others. A kubelet that starts after the manager has
// stopped takes the volumes back; hostPath volumes must be in place then, and notes in files
// (hostpath.Config.InPlace, emptydir.Config.NoteFiles). volume.Host lists the differences.
//
// The records are in <root>/plugins/volumekit.io/manager/volumes. Each is written to a
// temporary name, synced and renamed before the volume that it describes may exist.
package manager
