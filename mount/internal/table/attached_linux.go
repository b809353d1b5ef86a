package table

import "context"

// CountAttached returns how many mounts are attached in a mount, and whether one of them is at
// or below the path in the mount that inside returns. It calls inside only if any mount is
// attached. It needs the events feed: the poll feed does not report moves.
func (c *Cache) CountAttached(ctx context.Context, mount uint64, inside func() (string, error)) (n int, below bool, err error) {
	unlock, err := c.lock(ctx)
	if err != nil {
		return 0, false, err
	}
	defer unlock()
	if mount == 0 || c.feed != nil && !c.reportsMoves() {
		return 0, false, errNoFeed
	}
	if err := c.refresh(ctx, mount, nil); err != nil {
		return 0, false, err
	}
	if !c.reportsMoves() {
		return 0, false, errNoFeed
	}
	set, ok := c.index.inside[mount]
	if !ok {
		return 0, false, nil
	}
	where, err := inside()
	if err != nil {
		return 0, false, err
	}
	_, below = set.findBelow(where)
	return set.total, below, nil
}
