package testbed

import "github.com/volumekit/volumekit/mount"

// Wrapped is a mounter that wraps another, as one that counts calls does. Its abilities are those
// of the other one.
type Wrapped struct{ mount.Interface }

// Unwrap returns the other mounter, see [mount.As].
func (w Wrapped) Unwrap() mount.Interface { return w.Interface }
