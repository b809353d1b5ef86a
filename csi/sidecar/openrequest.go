package sidecar

import (
	"sync"

	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
)

// openRequests are the requests whose calls have an open outcome, by the names of their volumes. The zero value is
// ready to use.
type openRequests struct {
	mu     sync.Mutex
	byName map[string]*createRequest
}

// of returns the open request for a claim.
func (o *openRequests) of(options provision.Options) (r *createRequest, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r, ok = o.byName[options.PVName]
	return r, ok && r.claim == options.PVC.UID
}

// record keeps a request whose call has ended with an uncertain error, and forgets it after a success and a final
// error. A transient error changes nothing, except for a request that was made again after a restart: if the driver
// has a volume of other arguments, those of a later time may be equal to them.
func (o *openRequests) record(r *createRequest, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch kind := volume.KindOf(err); {
	case kind == volume.Uncertain:
		if o.byName == nil {
			o.byName = map[string]*createRequest{}
		}
		o.byName[r.call.Name] = r
	case kind == volume.Transient && (codeOf(err) != codes.AlreadyExists || !r.mayExist):
	default:
		delete(o.byName, r.call.Name)
	}
}

// forget forgets the request of a volume that was deleted.
func (o *openRequests) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byName, name)
}
