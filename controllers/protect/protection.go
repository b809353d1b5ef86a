package protect

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A usage is whether an object is used, as far as the controller has read it.
type usage int

const (
	usageUnread usage = iota // no user in the caches; the API server was not queried
	usedInCache              // a user in the caches: its change follows
	usedOutside              // a user that the caches lack: its change may never follow
	unused                   // by the API server
)

// A step is the next step for the protection of an object.
type step int

const (
	stepNone    step = iota
	stepProtect      // add the finalizer
	stepRead         // query the API server for users
	stepRelease      // remove the finalizer
	stepRecheck      // query again after a pause
)

// decide returns the next step for a claim or a volume with its protection finalizer:
//
//	 lives, without finalizer --> protect --> lives, with finalizer
//	                                                 | is deleted
//	                                                 v
//	 .------------- in deletion, with finalizer <---------------.
//	 |                    |               |                     |
//	 | user in the caches | no user there | user on the server  | after a pause
//	 v                    v               |                     |
//	none: its end        read ------------+------------> recheck-'
//	is a change           | no user
//	                      v
//	                   release --> in deletion, without finalizer
//
// An object in deletion never lives again, and the API server accepts no finalizer for it.
func decide(object metav1.Object, finalizer string, u usage) step {
	isProtected, isDeleted := slices.Contains(object.GetFinalizers(), finalizer), object.GetDeletionTimestamp() != nil
	switch {
	case !isDeleted && !isProtected:
		return stepProtect
	case !isDeleted || !isProtected || u == usedInCache:
		return stepNone
	case u == usageUnread:
		return stepRead
	case u == usedOutside:
		return stepRecheck
	}
	return stepRelease
}
