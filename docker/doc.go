// Package docker serves a volume plugin as a volume driver of Docker: "docker run -v data:/data" mounts the volumes of
// the plugin.
//
//	listener, err := docker.Listen(ctx, docker.SocketDir+"/nfs.sock")
//	...
//	err = docker.Serve(ctx, listener, docker.Config{Name: "nfs", Plugin: nfs.NewProvisioning(...), Host: host, Mounter: mounter})
//
// It speaks the protocol VolumeDriver 1.x of Docker's plugin API. A volume is created by the plugin's
// volume.Provisioner, or shows storage that exists ([Config].Share); it is attached and mounted once, by the plugin's
// Attacher, DeviceMounter and Mounter, for all containers that use it, and deleted by its volume.Deleter.
//
// # Options
//
// docker volume create -d nfs -o size=10Gi -o mode=0750 data
//
//	size   requested size, as Kubernetes writes it: 10Gi, 500M. Default: Config.Size
//	mode   mode of the volume's root directory, octal. Default, also of uid and gid: the plugin's
//	uid    owner of that directory
//	gid    its group
//	ro     true: containers can only read
//	share  storage that exists, by Config.Share, such as server:/path. It is neither created nor deleted
//	o      mount options, with commas between them, if the plugin has mount options
//
// All others are parameters of the plugin, such as those of a storage class, and replace those of [Config].Parameters.
// Create with the options of an existing volume changes nothing, and with others it is an error that names the first key,
// in alphabetical order, that differs. Options are kept as they are in the records, which only root can read, and are hidden in errors and in the
// log if their names look secret, such as password; so are such parameters of [Config].Parameters.
//
// # Users
//
// Mount records a user by its ID before the answer, and Unmount removes it; the last one takes the volume down. A
// kill of the process loses no user; a restart of the machine ends all. Unmount of an unknown ID ends no user. One that
// has to wait for another call for 50 seconds is an error, and ends none.
// A caller that has disconnected by the time the volume is mounted is no user.
//
// The mounts of an ID are counted: for docker cp a daemon mounts a second time with the ID of a running container (moby
// 20.10), and then unmounts as often. After a restart, of the daemon or of the driver, a Mount can also be the first one of
// a container that starts again, without an Unmount in between, or one whose answer was lost: then the count begins anew,
// if no process has the volume among its mounts.
//
// A daemon may forget a user: with live restore, for a container that it had started before its own restart. Such a user
// keeps the volume mounted until Remove, which the daemon calls when no container has the volume: it ignores users that
// are older than two minutes, if no process has the volume among its mounts.
//
// All this requires a driver that sees the processes of the machine, and may read their mounts: CAP_SYS_PTRACE, and for a
// managed plugin "pidhost". Without these rights each user counts until its Unmount.
//
// # Guarantees
//
//   - Each call ends before the daemon gives up: after 110 seconds for Create and Mount, and 50 for others. (Records are
//     on a local disk, which has to answer.)
//   - Calls for one volume wait for each other, so that one operation is in flight. Get, List and Path wait for none, and
//     read neither disks nor servers. Get shows a measurement of the last ten seconds, if the file system answers
//     within 100 ms. A dead server costs its volumes alone.
//   - Records are written before each change of storage or mounts. After a kill of the process, or a loss of power, the same call continues. An
//     unreadable file costs its volume alone.
//   - A name is no path, and requests are limited to 1 MiB, 64 options of 4 KiB, and 4096 users of a volume: an error,
//     and nothing changes.
//   - A volume whose deletion has begun is not mounted again. It stays in the list until Remove succeeds.
//   - With [ScopeGlobal] the options of a volume are compared on one machine alone.
//   - Create that was interrupted leaves a volume in state "creating", which Create, Mount or Remove completes.
//   - Get of an unknown name is an error. (The daemon takes the volume of the first driver that knows a name.)
//
// # Status
//
// docker volume inspect shows as Status: users; size, the created one; capacity, used and available in bytes, of a
// mounted volume; state, of one that is not ready; error, of Mount, Unmount or Remove, if the last of these has failed.
//
// # Differences between plugins
//
// The storage of a volume is named by a readable part of its name and a digest: of its name, the driver's, the node's and
// that of the records' directory, or, with [ScopeGlobal], of the first two: drivers that share a server have names of their own. For plugins that
// name storage after claims, its claim has the namespace "docker" and the name of the volume. Ownership by mode, uid and gid is set at the first mount, on the root directory alone.
//
// # Glossary
//
//   - daemon: dockerd, or another program that calls drivers, such as podman.
//   - managed plugin: a driver that a daemon runs as a container, from an image with a config.json.
//   - volume: the daemon's, by its name. Storage: its directory or device of the plugin, or the share.
//   - user: an ID of Mount that was not unmounted.
//   - up: attached and mounted, perhaps in part.
//   - take down: unmount and detach.
//   - record: the file about a volume.
package docker
