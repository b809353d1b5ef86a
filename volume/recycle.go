package volume

import "context"

// A Recycler empties volumes, so that the next claim finds nothing of the last.
type Recycler interface {
	// Recycle removes everything that is in the volume, and only that: it crosses
	// no mount, and follows no symbolic link. It returns nil only if it has seen
	// the volume empty afterwards; nothing else makes a volume fit to be used
	// again. Files may be gone after an error, of whatever kind: calling it again
	// goes on where it stopped. Two calls for one volume do not run at a time.
	//
	// The volume is released, its reclaim policy is Recycle, and no pod uses it:
	// the caller has seen to that. Name is the persistent volume's, for what is
	// told to people; where the files are is in spec alone.
	Recycle(ctx context.Context, name string, spec *Spec) error
}
