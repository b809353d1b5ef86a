// Package loop attaches loop devices, loop(4), and finds them again after a restart.
//
// A driver whose volumes are files needs three calls, named as in
// k8s.io/kubernetes/pkg/volume/util/volumepathhandler: [AttachFileDevice] returns the loop
// device of a file, and attaches one if there is none; [GetLoopDevice] finds it;
// [DetachFileDevice] detaches it. A file is found by its identity, by any path.
//
// [Attach] and [Named] use device names that the caller chooses and the kernel keeps, as
// one file may have several devices.
//
// A loop device holds its file or disk open until it is detached, also after the end of
// the process that attached it. Attaching requires Linux 5.8, root with CAP_SYS_ADMIN in the
// initial user namespace, and /dev/loop-control. A call returns soon after its context ends, with the context's cause,
// also if the file system of a file does not answer. On other systems than Linux all
// functions fail with an error that wraps errors.ErrUnsupported.
package loop
