// Package nfs is the volume plugin "kubernetes.io/nfs": exports of NFS servers,
// written in pods or as persistent volumes.
//
//	plugin := nfs.New(nfs.Config{Mounter: mount.New(mount.Config{})})
//	mgr, err := volume.NewVolumePluginMgr(host, plugin)
//
// # How it mounts
//
// By system call: the kernel's client mounts by version 4.2, 4.1 or 4.0, the newest
// that the server has, where nobody sees it, and what it has mounted appears for the
// pod complete, read-only from the first instant if the volume's source, its claim,
// its options or the pod say so. No program is executed, but for what takes further
// programs: version 3 (mount and lock protocols) and Kerberos (keys). That is
// mount.nfs, of the distribution's nfs-common or nfs-utils; if it is missing the
// error names it, as a mount.HelperError. [Config.Transport] can choose otherwise.
//
// # What is accepted
//
// A server is a name of the DNS, an IPv4 or an IPv6 address, with brackets or
// without; a path is absolute, without ".." and control characters; an option is one
// of nfs(5) that says how to reach the server and how to behave, with a value of its
// kind, not one that says who the server is or what the mount is. Everything else is
// refused by NewMounter with a *field.Error that names the field, before anything
// has changed. Volumes are mounted nosuid and nodev, unless the mounter allows
// otherwise.
//
// The owners of files are the server's: FsGroup of a pod has no effect, as in
// Kubernetes.
package nfs
