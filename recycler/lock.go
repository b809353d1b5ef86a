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

// lockBoth takes a lock of each map, or none. Whoever has one of the second waits for
// nothing else, so nobody waits for ever.
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

// storageKey returns a text that is the same for sources of the same files. Of NFS
// servers it knows the ways to write one name or address, not that two are of one
// machine.
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
