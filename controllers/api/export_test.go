package api

import (
	"sync/atomic"

	"k8s.io/client-go/tools/cache"
)

// OwnStates returns the number of objects with an own state.
func OwnStates[O Object](o *Objects[O]) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.own)
}

// CountSyncQueries counts the queries of a cache whether its informer has synced. Call it before Run.
func CountSyncQueries[O Object](c *Cache[O]) *atomic.Int64 {
	counting := &countingInformer{SharedIndexInformer: c.informer}
	c.informer = counting
	return &counting.queries
}

type countingInformer struct {
	cache.SharedIndexInformer
	queries atomic.Int64
}

func (i *countingInformer) HasSynced() bool {
	i.queries.Add(1)
	return i.SharedIndexInformer.HasSynced()
}
