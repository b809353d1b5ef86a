// Package nfs is the volume plugin "kubernetes.io/nfs": exports of NFS servers,
// written in pods or as persistent volumes.
//
//	plugin := nfs.New(nfs.Config{Mounter: mount.New(mount.Config{})})
//	mgr, err := volume.NewVolumePluginMgr(ctx, host, plugin)
//
// # How it mounts
//
// By system call: the kernel's client mounts by version 4.2, 4.1 or 4.0, the newest
// that the server offers. The mount is built detached and appears for the pod complete,
// read-only from the first instant if the volume's source, its claim, its options or the
// pod require it. No program is executed, except where the protocol needs further
// programs: version 3 (mount and lock protocols) and Kerberos (keys). That program is
// mount.nfs, of the distribution's nfs-common or nfs-utils; if it is missing the error is
// a mount.HelperError that names it. [Config.Transport] overrides the choice.
//
// # Accepted specifications
//
// A server is a DNS name, an IPv4 or an IPv6 address, with brackets or without. A path is
// absolute, without ".." and control characters. An option is one of nfs(5) that concerns
// the connection or the client's behaviour, with a value of its kind, or an SELinux label, which
// the mounter has to allow; options that change the server's identity are refused. Those for the
// readers of fstab ("nofail", "x-systemd.automount", ...) have no effect, nor has "bg": a set-up that
// fails ends with an error, and the caller tries again. NewMounter refuses everything else with a
// *field.Error that names the field, before anything has changed. Volumes are mounted
// nosuid and nodev, unless the mounter allows otherwise.
//
// The owners of files are the server's: FsGroup of a pod has no effect, as in
// Kubernetes.
//
// # Provisioning
//
// A [ProvisioningPlugin] provisions volumes: one directory of an export for each claim.
//
//	plugin := nfs.NewProvisioning(nfs.ProvisioningConfig{
//		Config:      nfs.Config{Mounter: mount.New(mount.Config{})},
//		Provisioner: "example.com/nfs", Server: "nas.example.com", Path: "/k8s",
//	})
//
// The directory is NAMESPACE-CLAIM-VOLUME; the claim's name is shortened if the result is longer
// than 240 bytes. Parameters of a class are those of nfs-subdir-external-provisioner, and more:
//
//   - pathPattern: the path of the directory, with the variables ${.PVC.namespace}, ${.PVC.name},
//     ${.PVC.labels.KEY} and ${.PVC.annotations.KEY}. The value of a variable is a part of one
//     component: an empty value, a "/", and ".." are refused, since tenants write labels and
//     annotations.
//   - onDelete: delete or retain. Empty: archiveOnDelete decides.
//   - archiveOnDelete: true (the default) renames the directory of a deleted volume to
//     archived-DIRECTORY at the top of the export; false deletes it. The name of an archive contains
//     the volume's name, and never replaces another archive.
//   - mode: the permissions of a new or empty directory, octal. The default is 0777.
//   - uid, gid: the owner of a new or empty directory. The default is the server's choice for this client.
//   - adopt: true takes a directory of the pathPattern that exists without a record, with its files. It
//     requires onDelete retain. Default: false.
//   - overcommit: true accepts claims that request more than the file system of the export has. Default: false.
//
// Any other parameter is an error. A pathPattern can give two claims one directory: the second claim is refused, unless
// the class has onDelete retain. Then all claims for which the same pathPattern gives the same directory share it, one
// after the other or at the same time. A pathPattern that is to separate namespaces must have ${.PVC.namespace} as a
// whole component: "a-b" and "c" joined are also "a" and "b-c".
//
// The directory ".volumekit" of the export has these records:
//
//   - the owner of each directory;
//   - the directory of each volume: a call after an interrupted one continues with it, also if the claim or the class
//     has changed;
//   - "export", the name of the export, which new volumes have as their [volume.StorageAnnotation]. Two exports must not
//     share it: remove the record from a copy of an export before its first use.
//
// The directory of a claim is never that of another volume, unless they share it, nor is it in or above one. A
// directory that exists without a record, such as one of nfs-subdir-external-provisioner, is refused
// as the directory of a pathPattern, and as a parent if a name, label or annotation of the claim
// chooses the parent. Parents of directories stay.
//
// With adopt, a claim finds data that was retained at its path, also by another program. Only the path says whose it
// is: begin the pathPattern with ${.PVC.namespace}/, or tenants adopt each other's directories. Not adopted are
// directories below one that a name, label or annotation of a claim chooses, lost+found, and default directories of
// nfs-subdir-external-provisioner, whose names end with "-pvc-" and a UUID.
//
// NFS does not enforce the size of a directory. A claim that requests more than the file system of
// the export has is refused, unless the class has overcommit.
//
// Delete deletes directories below the export only, and only of volumes that name the provisioner in
// the annotation pv.kubernetes.io/provisioned-by, or that have [OnDeleteAnnotation]. Volumes of
// nfs-subdir-external-provisioner have the first one: [ProvisioningConfig].Class supplies their
// class. Volumes of that program may share a directory: deleting one archives or deletes it for all. Set their reclaim
// policy to Retain. Deletion never leaves the mount of the export, so that a directory in an export of its own
// below the export is refused.
//
// # When a server is dead
//
// A dead server costs its own volumes and nothing else: every call returns soon after its
// context ends, and at most one call for each mount, and for each target directory, is
// stuck in the kernel.
//
//   - SetUp of a volume that is not mounted gives up and leaves nothing behind; a mount
//     that the kernel finishes later is dropped before it becomes visible. SetUp of a
//     mounted volume gives up, too: the volume stays as it is and works again when the
//     server does. If the server answers but has another export in its place (ESTALE)
//     the volume is mounted anew.
//   - TearDown unmounts the volume and removes its directory, in use or not, as far as
//     mount.UnmountPolicy of the mounter allows. The process can exit.
//   - Provision and Delete give up. Their mount of the export is unmounted as far as
//     mount.UnmountPolicy of the mounter allows, which interrupts system calls that wait.
//   - GetMetrics fails and says that the server does not answer. ConstructVolumeSpec and
//     the calls about names read the mount table alone.
//
// With 500 ms for each call, on a server that was cut off, the slowest of three tries
// (Linux 6.12 in User-Mode Linux; grace of the policy 100 ms; each mount is the last one
// of its file system):
//
//	mount.Mounter.Close                                 0.0 ms    done
//	mount.Mounter.IsMountPoint                          0.1 ms    done
//	mount.Mounter.IsMountPoint, inside of it            552.3 ms  given up
//	mount.Mounter.List                                  0.7 ms    done
//	mount.Mounter.Mount, a bind of it                   2.6 ms    done
//	mount.Mounter.Mount, a bind of what is in it        552.4 ms  given up
//	mount.Mounter.Mount, a remount                      1.6 ms    done
//	mount.Mounter.Mount, of the server                  552.2 ms  given up
//	mount.Mounter.Mount, on what is in it               552.7 ms  given up
//	mount.Mounter.MountRefs                             2.6 ms    done
//	mount.Mounter.MountsFrom                            60.3 ms   done
//	mount.Mounter.Resolve                               9.9 ms    done
//	mount.Mounter.Resolve, inside of it                 552.1 ms  given up
//	mount.Mounter.Unmount, idle                         551.0 ms  unmounted, not ended
//	mount.Mounter.Unmount, in use                       226.0 ms  done
//	mount.Mounter.UnmountTree                           551.4 ms  unmounted, not ended
//	nfs.Mounter.GetMetrics                              501.8 ms  given up
//	nfs.Mounter.SetUp                                   554.4 ms  given up
//	nfs.Mounter.SetUp, of one that is up                500.5 ms  given up
//	nfs.Plugin.ConstructVolumeSpec                      2.2 ms    done
//	nfs.Plugin.NewMounter, NewUnmounter, GetVolumeName  0.1 ms    done
//	nfs.Unmounter.TearDown, idle                        551.1 ms  done
//	nfs.Unmounter.TearDown, in use                      223.2 ms  done
//	util.RemoveEmptyParents                             0.1 ms    done
//	util.UnmountMountPoint, idle                        554.9 ms  unmounted, not ended
//	util.UnmountPath, in use                            221.5 ms  done
//
// The command, which fails if a call takes 600 ms:
//
//	go build -o bin/umlrun ./internal/kerneltest/cmd/umlrun
//	CGO_ENABLED=0 VOLUMEKIT_REQUIRE=nfs go test -short -v -run TestNFSDeadTable -exec "$PWD/bin/umlrun -kernel 6.12" ./nfs
//
// Limits of the kernel: a program of a pod that waits for the server in a system call
// leaves it only when it is killed (a forced unmount aborts the call with an error); data
// that the server has not received are lost; a call of this library that is in the kernel
// cannot be ended. A mount that was given up keeps one thread of the process until the
// kernel's client gives up, which takes some minutes; a query of a mount keeps one until
// the mount is gone. Options such as softerr and timeo limit the client's attempts.
package nfs
