// Package manager is the node's volume manager: an agent says which pods should run
// here, and their volumes are attached, mounted, kept and taken down, through restarts,
// faults and dead servers.
//
//	m, err := manager.New(manager.Config{Plugins: plugins, Host: host, Mounter: mounter, Source: source})
//	go m.Run(ctx)
//	err = m.WaitForAttachAndMount(ctx, pod) // before the pod's containers start
//	...
//	err = m.WaitForUnmount(ctx, pod) // after the source has let go of the pod
//
// # How it works
//
// One goroutine decides. The populator turns the pods of the [Source], through their
// claims, into the desired state of the world. The actual state is what operations have
// reported: attached, mounted once for all pods, up in a pod; each absent, present, or
// uncertain. A pure function compares the two and says which operations are to begin; the
// executor runs them, one at a time for each volume, and reports what became of them.
// The loop sleeps until the source changes, an operation ends, a time for another try has
// come, or the mount table has changed. While nothing changes it does nothing, but for two
// things: at each resync it looks at everything, and at each refresh it sets up again
// those volumes, if there are any, that follow something else, as a configMap does (see
// Config.Resync and Config.Refresh).
//
// What is not wanted any more is taken down before anything new comes up on the same
// volume or in the same directory; what is wanted is attached, mounted once, set up for
// its pods, and grown; what no pod has is unmounted and detached.
//
// # What it guarantees
//
//   - Nothing is taken down before the source has told all pods once, nor a volume of a
//     pod that the source has, whatever else about that pod cannot be found out.
//   - What is up in a pod stays while the pod does if its claim is bound to another volume
//     meanwhile, or its volume is deleted and made anew: the pod is told, and has the new
//     one when it comes again. (After a restart it is not known of which claim a volume is
//     that was neither attached nor mounted for all pods: that is taken down then, and the
//     new one set up.)
//   - Uncertain is treated as mounted: a volume is never reported as gone, nor is
//     anything below it unmounted or detached, until that is certain.
//   - What containers have of a volume, bound by package util/subpath or as the kubelet
//     does it, is unmounted before the volume is torn down.
//   - One operation is in flight for each volume until the work has ended.
//   - What fails is tried again, with growing pauses, as long as it is wanted; a set-up
//     that nobody wants any more ends early.
//   - A volume that somebody else unmounts is mounted again. Where somebody mounts
//     something else over it, or in its place, its plugin is asked to set it up again,
//     which changes nothing if it is there as wanted, and else fails, and is told, as
//     long as the other mount is there: that is not ours to unmount. When it has gone
//     the volume is tried at once. (It is known by the kernel's unique mount IDs:
//     before Linux 6.8 only what is no mount point any more is noticed. After a
//     restart no ID is known, and all is set up again anyway.)
//   - A volume of ReadWriteOncePod is in one pod at a time.
//   - What is mounted once for all pods is mounted to be written to if one of them
//     writes. If it was mounted for pods that only read before, its plugin is asked to
//     mount it for the one that writes; where it cannot, as it says by
//     volume.ErrAlreadyMounted, that pod waits until the others have gone.
//   - A plugin that panics has failed, and nothing else. A source that panics has failed,
//     too: what it was asked is not known; with Changed, Run returns the error.
//
// # What is left to the embedder
//
// The manager gives no volume a label of SELinux (volume.MounterArgs.SELinuxLabel is
// empty), whatever a pod's SELinuxOptions say: where SELinux is enforced the container
// runtime has to relabel volumes, or the plugin to mount them with a context that its own
// configuration gives.
//
// # After a restart
//
// The actual state is rebuilt from the directories of the pods, each by the plugin that
// its name says, and from small files of our own about volumes that are attached or
// mounted for all pods. All of it is uncertain at first. What is wanted is
// set up again, which changes nothing where it is up as wanted; what is not is taken
// down. What no plugin understands stays as it is and is shown as a [Leftover]; what its
// plugin knows to be half of a volume, and no more than a pod's own, is taken down by
// it. Empty directories of pods are removed.
//
// The files are in <root>/plugins/volumekit.io~manager/volumes, written to another name,
// synced and renamed, before what they tell of may be there.
package manager
