package recycler

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
)

// harmlessOptions are the NFS mount options that do not change which files are mounted. A
// pod mounts without options; a port, a version or a transport may lead to another server
// or another export.
var harmlessOptions = []string{
	"rw", "hard", "soft", "softerr", "timeo", "retrans", "retry", "fg", "bg", "intr", "nointr",
	"rsize", "wsize", "nconnect", "lock", "nolock", "ac", "noac", "actimeo", "acregmin", "acregmax",
	"acdirmin", "acdirmax", "lookupcache", "noatime", "nodiratime", "relatime", "nosuid", "nodev", "noexec",
}

// NFSSource returns the source by which a pod mounts an NFS volume. The error wraps
// [volume.ErrNotSupported] for volumes of other kinds and for mount options that may select
// other files, such as a port. A missing server or path is a [*field.Error].
func NFSSource(pv *v1.PersistentVolume) (v1.VolumeSource, error) {
	nfs := pv.Spec.NFS
	path := field.NewPath("spec", "persistentVolume", "spec", "nfs")
	switch {
	case nfs == nil:
		return v1.VolumeSource{}, fmt.Errorf("recycle by pod: not an NFS volume: %w", volume.ErrNotSupported)
	case nfs.Server == "":
		return v1.VolumeSource{}, field.Required(path.Child("server"), "a server is needed")
	case !strings.HasPrefix(nfs.Path, "/"), slices.Contains(strings.Split(nfs.Path, "/"), ".."):
		return v1.VolumeSource{}, volume.Invalid(path.Child("path"), nfs.Path, `must be absolute, without ".."`)
	}
	for _, option := range volume.NewSpecFromPersistentVolume(pv, false).MountOptions() {
		if name, _, _ := strings.Cut(option, "="); !slices.Contains(harmlessOptions, name) {
			return v1.VolumeSource{}, fmt.Errorf("recycle by pod: mount option %s: %w", input.Quote(option), volume.ErrNotSupported)
		}
	}
	return v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: nfs.Server, Path: nfs.Path}}, nil
}

// check refuses volumes that no pod can recycle.
func check(spec *volume.Spec) error {
	path := field.NewPath("spec", "persistentVolume")
	if err := spec.Validate(); err != nil {
		return err
	}
	switch {
	case spec.PersistentVolume == nil:
		return field.Required(path, "only persistent volumes are recycled")
	case spec.PersistentVolume.UID == "":
		return field.Required(path.Child("metadata", "uid"), "the UID identifies the pod")
	case spec.IsBlock():
		return fmt.Errorf("recycle by pod: a block device: %w", volume.ErrNotSupported)
	case spec.IsReadOnly():
		return field.Forbidden(path, "a read-only volume cannot be emptied")
	}
	return nil
}
