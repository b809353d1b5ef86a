package api

import "k8s.io/apimachinery/pkg/runtime"

// An Event reports a step or a failure of an object to users. A controller passes it to the
// function in its configuration, which must not block.
type Event struct {
	// Object is the object that the event is about, or a *v1.ObjectReference to it.
	Object runtime.Object
	Type   string // v1.EventTypeNormal or v1.EventTypeWarning
	Reason string // in upper camel case, such as ProvisioningFailed
	// Message contains no secret.
	Message string
}
