// Package subpath shows a container a part of a volume: what is at a path inside it,
// as a bind mount of its own, so that the container gets that and nothing else.
//
// The volume belongs to pods, and what is in it changes while we work: whatever is
// renamed or replaced, nothing outside the volume is bound, created or changed.
// [Bind] goes down from the volume's directory, which is opened once, component by
// component, from one descriptor to the next, and follows symbolic links itself: what
// a link says is taken as more components, and ".." leads back to the directory that
// was come from, not to wherever that lies by now. A link that leads out of the
// volume, or is absolute, is refused with [ErrEscapes]. What has been found so is
// bound by its descriptor (SourceFile of mount.Request), no path is resolved again,
// on every kernel and every tier of the mounter.
//
// The bind mounts lie where the kubelet has them, and what is there is all that there
// is to know about them: [Cleanup] takes them down after a restart or a crash as well.
//
//	PODDIR/volume-subpaths/VOLUME/CONTAINER/INDEX
//
// It needs Linux, and a mounter that takes a SourceFile. On other systems Bind and
// Cleanup fail with errors.ErrUnsupported.
package subpath
