package bind

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// finishing are the claims for which this run has written the phase Bound of a volume and not yet the status, by
// their UIDs, with the versions of their volumes after the write. The zero value is empty.
type finishing struct {
	mu       sync.Mutex
	versions map[types.UID]string
}

func (f *finishing) add(claim types.UID, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.versions == nil {
		f.versions = map[types.UID]string{}
	}
	f.versions[claim] = version
}

func (f *finishing) has(claim types.UID, version string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.versions[claim] == version
}

func (f *finishing) remove(claim types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.versions, claim)
}

// listClaims reads all claims from the API server.
func (c *Controller) listClaims(ctx context.Context, _ string) ([]v1.PersistentVolumeClaim, error) {
	list, err := c.config.Cluster.PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return list.Items, nil
}

// readRivals reads the claims other than one that have been bound to a volume from the API server. Later views show
// them, and each has a turn. Concurrent callers share a list of all claims.
func (c *Controller) readRivals(ctx context.Context, volume string, of api.Key) error {
	list, err := c.claimLists.Get(ctx, "")
	if err != nil {
		return err
	}
	for i := range list {
		key := api.KeyOf(&list[i])
		if list[i].Spec.VolumeName != volume || key == of || !hasBeenBound(&list[i]) {
			continue
		}
		live, err := c.claims.Live(ctx, key)
		if err != nil {
			return fmt.Errorf("read claim %s: %w", key, err)
		}
		if live != nil {
			c.claimants.set(live)
			c.claimPool.Add(key)
		}
	}
	return nil
}
