package kubeserver

import (
	"context"
	"fmt"
)

// Rewrite replaces the stored object of a key, such as /registry/minions/NAME, in etcd, as an API server of
// another time would have written it: a client cannot choose the time of a creation. Change receives and
// returns the stored bytes. Watches report the change. Rewrite returns the error of change, of etcd or of ctx.
func (s *Server) Rewrite(ctx context.Context, key string, change func(stored []byte) ([]byte, error)) error {
	var found struct {
		Entries []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := s.post(ctx, "/v3/kv/range", map[string][]byte{"key": []byte(key)}, &found); err != nil {
		return err
	}
	if len(found.Entries) != 1 {
		return fmt.Errorf("etcd: key %s: %d values", key, len(found.Entries))
	}
	changed, err := change(found.Entries[0].Value)
	if err != nil {
		return err
	}
	return s.post(ctx, "/v3/kv/put", map[string][]byte{"key": []byte(key), "value": changed}, nil)
}
