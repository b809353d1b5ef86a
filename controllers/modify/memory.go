package modify

import (
	"time"
)

// An attempt is the last call for a claim of this process. The zero value is none.
type attempt struct {
	target string
	wanted string // by the claim at that time
	// parameters are those of a call whose outcome is open.
	parameters map[string]string
	ended      time.Time
	isSettled  bool   // the call has ended without an effect
	isClean    bool   // see view
	announced  string // the last event of the claim
}
