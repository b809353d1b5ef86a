package expand

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// An attempt is the last call for a claim of this process. The zero value is none.
type attempt struct {
	size, request resource.Quantity
	ended         time.Time
	isSettled     bool   // the call has ended without an effect
	announced     string // the last event of the claim
}

// isOf reports whether the attempt was one for this size and this request.
func (a attempt) isOf(size, request resource.Quantity) bool {
	return !a.ended.IsZero() && a.size.Cmp(size) == 0 && a.request.Cmp(request) == 0
}
