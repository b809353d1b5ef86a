// Package csi is the volume plugin kubernetes.io/csi: it uses the volumes of CSI drivers on a node, as a
// kubelet does.
//
//	plugin := csi.New(csi.Config{Mounter: mount.New(mount.Config{}), Drivers: watcher, Objects: objects, ...})
//	mgr, err := volume.NewVolumePluginMgr(ctx, host, plugin)
//
// Persistent volumes are staged once for the node and published for each pod; inline volumes (csi in a
// pod) are published. Volumes of the mode Block are devices. The plugin passes drivers every argument
// that a kubelet passes: the publish context of the attachment, Secrets, tokens and names of the pod,
// mount options, the group of the pod and SELinux labels, as the CSIDriver object requires. It expands
// and measures volumes. A driver refuses unsupported requests.
//
// # Glossary
//
//   - driver: a program that serves the CSI services Identity and Node on a Unix socket, [Driver].
//   - registration: the time from the discovery of a driver's socket until its end. The plugin keeps one
//     connection for each registration, and reads the capabilities once.
//   - object: the CSIDriver of the API. A driver without one has the defaults of the API.
//   - stage: NodeStageVolume, at the staging path. Publish: NodePublishVolume, at the target.
//   - handle: the driver's name for a volume. The handle of an inline volume is a hash of the pod's UID
//     and the volume's name.
//   - file: vol_data.json beside the staging path or target. It names driver and handle, and has the
//     last call without its secrets.
//   - unknown outcome: a driver may have carried out the call, or may do so yet.
//
// # Calls
//
// A volume has one call in flight, whichever path it concerns. A call ends with its context, and after
// two minutes. The file is written before the call, durably, so that each call is repeated or reverted
// after a restart of the program:
//
//   - After an unknown outcome (Canceled, DeadlineExceeded, Unavailable, ResourceExhausted, Aborted, a
//     lost connection) the error is uncertain, and the next set-up repeats the call with the same
//     arguments, also if the specification has changed. Only Secrets, tokens and the secrets in mount
//     options, such as password=, are read again. The next tear-down reverts the call.
//   - A tear-down whose outcome is unknown is repeated before the volume is brought up again.
//   - After any other answer, a first call has left nothing. A refused repetition leaves the volume and
//     its directory: the pod may be using them.
//   - A driver that refuses to stage a staged volume again (ALREADY_EXISTS) gets NodeUnstageVolume and
//     NodeStageVolume, if the volume is not published.
//   - A staged volume is unstaged also if its driver has lost the capability STAGE_UNSTAGE_VOLUME since.
//   - Statistics are read while no other call is in flight for the volume, and are interrupted after five
//     seconds if another call waits.
//   - If a call was not sent, since the driver is not registered ([ErrNotRegistered]) or its socket
//     refuses the connection, the error is transient.
//   - After a restart of the machine nothing is mounted, and calls begin anew.
//
// A volume is not published while it is being unstaged, and not unstaged while a call publishes it: the error
// is transient.
//
// A volume that is up with another access mode, with other mount options, or not read-only as required
// is [volume.ErrAlreadyMounted].
//
// # Files
//
// Paths and files are those of a kubelet; see paths.go for a list. A kubelet ignores the key with the
// last call. The plugin takes over the volumes of a kubelet, and a kubelet those of the plugin. The call
// for a volume that a kubelet has published is repeated with the kubelet's arguments, and the group of the
// pod is applied if the root directory of the volume lacks it. If
// vol_data.json is missing or broken, as after a loss of power, the set-up of the volume writes it
// again. Without a specification, the plugin finds the volume by the mount table and the files of other
// paths, or else leaves the volume as it is ([ErrUnknownVolume]).
//
// # Cost
//
// A volume of one pod costs the driver four calls: stage, publish, unpublish and unstage. Before each of the
// first two a file is written durably, in a new directory: its content, the name of the directory and the
// name of the file are synced. The later states of a call are of use until the system ends: they are one
// byte of the file, changed in place and not synced. Volumes that are up have no goroutines, and no calls
// are made for them. "make bench-csi" measures the time beside the calls alone and a kubelet's client.
//
// # Differences to a kubelet
//
//   - A volume whose specification is read-only in any way (the claim of the pod, csi.readOnly, the mount
//     option ro) is published read-only; a kubelet looks at the claim alone.
//   - A device gets a staging path only if the driver stages.
//   - A raw device is a link in the pod's directory to the published path. The kubelet's bind mount and
//     loop device besides are not made.
//   - A driver that reports the end of a mount that remains is not believed.
//   - Answers are checked: negative numbers are omitted, and an expansion to less than the requested size
//     is not complete.
//
// # Limits
//
// A driver serves its volumes in the mount namespace of the node, with mount propagation to this
// process. The plugin does not attach: a controller does, and [AttachmentReader] reports it. An
// expansion whose outcome is unknown is repeated with its size in the same process only.
package csi
