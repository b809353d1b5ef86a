// Package flexvolume is the plugin for Flexvolume drivers: executables on the node that attach and mount
// volumes. [Plugin] serves the volumes of one driver; [Discover] and [Watch] register a plugin for each
// driver in a directory.
//
//	config := flexvolume.Config{Dir: flexvolume.DefaultDir, Mounter: mounter, Secrets: secrets}
//	names, err := flexvolume.Discover(ctx, mgr, config) // before the manager starts
//	go flexvolume.Watch(ctx, mgr, config, report)
//
// # Protocol
//
// A driver "vendor/driver" is the executable <dir>/vendor~driver/driver. A call starts it with the
// operation as first argument, and reads an answer in JSON: {"status": "Success"}, "Failure" with a
// message, or "Not supported". After "Not supported" the plugin does the work itself:
//
//	init            no default: the driver has to answer
//	attach, detach  nothing has to be done
//	isattached      the volume counts as attached
//	waitforattach   the device is the result of attach
//	mountdevice     the device, if there is one, is formatted if it is blank, and mounted (package disk)
//	unmountdevice   unmounted
//	mount           a bind mount of the device mount
//	unmount         unmounted
//	expandvolume    nothing has to be done: expandfs grows the volume
//	expandfs        the file system of the device mount is grown (package disk)
//
// A driver that answers another operation than init in this way is not called for the operation again by this process
// until its executable changes. The driver reports in init whether its volumes are attached and mounted by device (attach, true by
// default), whether the plugin gives the files to the pod's group (fsGroup, true), whether the size of
// the file system is measured (supportsMetrics, false), whether expandfs is needed (requiresFSResize,
// true), and whether files can be relabelled (selinuxRelabel, true).
//
// # Secrets
//
// The protocol passes Secrets to the call mount in an argument, base64 encoded. Each user of the node can read
// the arguments of a running process, unless /proc is mounted with hidepid (proc(5)). The errors of mount contain no
// Secret value, and those of unmount no output of a driver that has received one from this package. Whether a driver has received
// one from a kubelet is not known: its output is shown. Prefer a CSI driver for volumes with Secrets.
//
// # Guarantees
//
//   - An executable runs only if it, its directory and the directory of drivers belong to root, and only root
//     can write them; none of the two below the directory of drivers may be a symbolic link.
//   - Each call ends with its context, and at the latest at its deadline, see [Config].Timeout: then the process group is
//     killed. While the kernel does not end a killed process, further calls for its directory, or of its volume, fail at
//     their deadlines.
//   - The mount table decides, not the driver's answer: a "Success" of mount without a mount is an error, and
//     a mount that remains after unmount is unmounted. The mount of a pod is read-only if the specification is.
//   - A call that mounts or unmounts and is interrupted, by its deadline, its context or the end of this process, leaves a
//     note beside the directory. The next call has the driver unmount first.
//   - An answer is at most 64 KiB long. More output is discarded; an answer that is cut is an error.
//
// A process that leaves the process group of its driver, as a daemon does, is not killed, and may mount
// after the end of the call; so may a child of the driver after SIGKILL of this process. A daemon closes or
// redirects its output, as a kubelet requires: here the output is closed half a second after the end of the call.
//
// # Differences to a kubelet
//
//   - The kubelet calls getvolumename and discards the name. This package does not call it. The name
//     of a volume is that of its specification, as in the kubelet.
//   - The options have the pod's group as kubernetes.io/fsGroup, as documented for drivers, and as
//     kubernetes.io/mounterArgs.FsGroup, as newer kubelets pass it, and the directory of device mounts as
//     kubernetes.io/mountsDir.
//   - A driver without vendor is not supported: the name of a plugin has two parts.
//   - The kubelet accepts a volume that is no mount, and has no deadlines.
//   - The kubelet ignores errors of the change of owners.
//   - A driver may print its answer to standard output or to standard error. The kubelet reads both as one
//     text, so that a warning makes an answer unreadable.
//   - The driver's environment is PATH, and [Config].Env. The kubelet passes its own.
//   - A kubelet does not know the note of an interrupted call. If it takes over meanwhile, and completes the volume,
//     the next take-over has the driver unmount the volume, and mount it again.
//   - The mount of a driver keeps its flags. Only the plugin's own mounts are nosuid and nodev.
//   - The kubelet removes the plugin of a driver that was removed; here the calls of the driver fail with
//     [ErrNoDriver] until the driver is back.
//
// The names of plugins, directories and device mounts are those of a kubelet, so that each can take over
// the volumes of the other.
//
// # Glossary
//
//   - driver: an executable, by its name "vendor/driver".
//   - call: one execution of a driver. Operation: its first argument.
//   - answer: the JSON object that a driver prints.
//   - capabilities: the answer to init.
//   - device mount: the mount of a volume for all pods of the node, by mountdevice.
//   - note: a small record beside the directory of a volume, see package podvolume.
//   - interrupted: a call whose driver was killed, or whose undo has failed.
package flexvolume
