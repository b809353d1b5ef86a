// Package subpath bind mounts a part of a volume for a container: the file or directory at
// a path inside the volume, and nothing else of it.
//
// The volume belongs to pods, which may change it at any time: in spite of concurrent renames and
// replacements, nothing outside the volume is bound, created or changed. [Bind] opens the
// volume's directory once and resolves the path component by component, from one
// descriptor to the next. It follows symbolic links itself: it inserts the components of
// the link's target, and ".." returns to the directory that the walk came from, wherever
// that directory has been moved. A link that leads out of the volume, or is absolute, is
// refused with [ErrEscapes]. The result is bound by its descriptor (SourceFile of
// mount.Request), on every kernel and every tier of the mounter; no path is resolved
// again.
//
// The bind mounts are at the kubelet's paths. [Cleanup] finds them on disk alone, so it
// works after a restart or a crash as well.
//
//	PODDIR/volume-subpaths/VOLUME/CONTAINER/INDEX
//
// The package requires Linux, and a mounter that supports SourceFile. On other systems Bind
// and Cleanup fail with errors.ErrUnsupported.
package subpath
