package volume

import "context"

// A Recycler empties volumes, so that the next claim finds no file of the last.
type Recycler interface {
	// Recycle removes all files of the volume, and no others: it crosses no mount, and
	// follows no symbolic link. It returns nil only if the volume was found empty afterwards;
	// nothing else makes a volume fit for another claim. After an error, of whatever kind,
	// files may be gone; the next call removes the rest. Two calls for one volume do not run
	// at a time.
	//
	// The caller has checked that the volume is released, its reclaim policy is Recycle, and
	// no pod uses it. Name is the persistent volume's, for messages; spec alone names the
	// storage.
	Recycle(ctx context.Context, name string, spec *Spec) error
}
