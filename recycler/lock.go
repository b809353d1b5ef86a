package recycler

import (
	"context"
	"encoding/json"
	"net/netip"
	"path"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/util/keylock"
)

// lockBoth acquires a lock of each map, or none. The holder of a lock of second waits for
// no other lock, so there is no deadlock.
func lockBoth(ctx context.Context, first *keylock.Map, a string, second *keylock.Map, b string) (unlock func(), err error) {
	unlockFirst, err := first.Lock(ctx, a)
	if err != nil {
		return nil, err
	}
	unlockSecond, err := second.Lock(ctx, b)
	if err != nil {
		unlockFirst()
		return nil, err
	}
	return func() { unlockSecond(); unlockFirst() }, nil
}

// storageKey returns the same text for sources of the same files. It knows the spellings
// of one NFS server's name or address, but not that two names belong to one machine.
func storageKey(source v1.VolumeSource) string {
	if nfs := source.NFS; nfs != nil {
		server := strings.TrimSuffix(strings.ToLower(nfs.Server), ".")
		if address, err := netip.ParseAddr(strings.Trim(server, "[]")); err == nil {
			server = address.Unmap().String()
		}
		return "nfs\x00" + server + "\x00" + path.Clean(nfs.Path)
	}
	text, _ := json.Marshal(source) // it never fails
	return string(text)
}
