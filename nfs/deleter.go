package nfs

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A deleter implements [volume.Deleter] for a directory.
type deleter struct {
	access *exportAccess
	pv     *v1.PersistentVolume
	dir    string // relative to the export
	class  func(context.Context, string) (*storagev1.StorageClass, error)
}

// Delete archives the directory, deletes it with its content, or retains it, as the class requires.
// An archive is "archived-DIRECTORY" in the export, with the name of the volume appended unless
// DIRECTORY contains the name, and with a number appended if that exists. Parents of the directory
// stay. An empty directory of a volume without a UID, for which no object was stored, is deleted instead.
//
// Delete returns nil if the directory does not exist, or is another volume's by now, or is shared. If part of the content could not be
// deleted, the error wraps a *scrub.UnremovableError.
func (d *deleter) Delete(ctx context.Context) (err error) {
	defer brief.Shorten(&err)
	if err := d.delete(ctx); err != nil {
		return fmt.Errorf("delete %s in %s: %w", d.dir, d.access.export, err)
	}
	return nil
}

func (d *deleter) delete(ctx context.Context) error {
	end, err := d.disposal(ctx)
	if err != nil {
		return err
	}
	if end == retaining {
		return ctx.Err()
	}
	if end == archiving {
		defer progress.Begin(ctx, progress.Step{Name: progress.Archive, Object: fmt.Sprintf("%s/%s", d.access.export, d.dir)})()
	}
	return d.access.within(ctx, d.pv.Name, func(ctx context.Context, t *exportTree) error {
		if end == archiving {
			return t.archive(ctx, d.dir, d.pv.Name, d.isStored())
		}
		return t.delete(ctx, d.dir, d.pv.Name)
	})
}

// isStored reports whether the volume is an object of the API server. No pod has had one that is not.
func (d *deleter) isStored() bool { return d.pv.UID != "" }

// disposal returns the end of the directory: by the annotation, by the class of the volume, or the
// default of classes.
func (d *deleter) disposal(ctx context.Context) (disposal, error) {
	if written, ok := d.pv.Annotations[OnDeleteAnnotation]; ok {
		switch end := disposal(written); end {
		case archiving, deleting, retaining:
			return end, nil
		}
		at := field.NewPath("volume", "metadata", "annotations").Key(OnDeleteAnnotation)
		return "", volume.Invalid(at, written, "must be archive, delete or retain")
	}
	if d.class == nil || d.pv.Spec.StorageClassName == "" {
		return archiving, nil
	}
	class, err := d.class(ctx, d.pv.Spec.StorageClassName)
	switch {
	case volume.IsNotFound(err):
		return archiving, nil
	case err != nil:
		return "", volume.AsTransient(fmt.Errorf("read class %q: %w", d.pv.Spec.StorageClassName, err))
	}
	return parseDisposal(field.NewPath("storageClass", "parameters"), class.Parameters)
}
