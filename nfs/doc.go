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
//
// # When a server is dead
//
// It costs its own volumes, and nothing else: every call returns soon after its
// context ends, and for each mount, and for each directory that is being mounted on,
// at most one call is stuck in the kernel.
//
//   - SetUp of a volume that is not up gives up, and nothing of it remains; what the
//     kernel finishes later is dropped unseen. Of a volume that is up it gives up, too:
//     the volume stays as it is, and works again when the server does. If the server is
//     there but has another export in its place (ESTALE) it is mounted anew.
//   - TearDown takes the volume down and removes its directory, in use or not, as far as
//     mount.UnmountPolicy of the mounter goes. The process can exit.
//   - GetMetrics fails and says that the server does not answer. ConstructVolumeSpec,
//     and whatever else is about names, reads the mount table alone.
//
// With 500 ms for each call, on a server that was cut off, the slowest of three tries
// (Linux 6.12 in User-Mode Linux; grace of the policy 100 ms; the files' systems are
// each the last mount of theirs):
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
// What the kernel makes impossible: to get a program of a pod out of a system call in
// which it waits for the server, other than by killing it (a forced unmount aborts it,
// with an error); to keep what it has written and the server has not got; to end a call
// of ours that is in the kernel. A mount that is given up keeps one thread of the
// process for as long as the kernel's client tries, which is some minutes, and a
// question to a mount one for as long as that is up. Options such as softerr and timeo
// say how long the client tries.
package nfs
