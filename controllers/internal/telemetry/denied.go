package telemetry

import (
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// ReasonDenied is the reason of the event of a request that the API server denies.
const ReasonDenied = "RequestDenied"

// Denied returns a function for workers.Config.Denied that sends an event about the object with the key. The
// owner of a claim sees its events, and not the log of a controller.
func Denied[O api.Object](cache *api.Cache[O], events func(api.Event)) func(key api.Key, err error) {
	return func(key api.Key, err error) {
		if object, ok := cache.Get(key); ok {
			events(api.Event{Object: object, Type: v1.EventTypeWarning, Reason: ReasonDenied, Message: Text(err.Error())})
		}
	}
}
