package table

import (
	"context"
	"sync"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/util/ctxend"
)

// departures counts the unmounts in flight in this process, by file system and mount.
type departures struct {
	mu     sync.Mutex // held for map operations only
	mounts map[kernel.Device]map[uint64]int
}

var departing departures

// includes reports whether an unmount of a mount is in flight.
func (p *departures) includes(d kernel.Device, mount uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mounts[d][mount] > 0
}

func (p *departures) begin(d kernel.Device, mount uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mounts == nil {
		p.mounts = map[kernel.Device]map[uint64]int{}
	}
	if p.mounts[d] == nil {
		p.mounts[d] = map[uint64]int{}
	}
	p.mounts[d][mount]++
}

func (p *departures) end(d kernel.Device, mount uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mounts[d][mount]--; p.mounts[d][mount] == 0 {
		delete(p.mounts[d], mount)
	}
	if len(p.mounts[d]) == 0 {
		delete(p.mounts, d)
	}
}

// BeginDeparture records, until end is called, that an unmount of a mount is in flight. It
// reports whether the file system outlives the mount: whether the mount table has another
// mount of the file system that is not departing. Such a file system needs no hold, which
// costs as much as the unmount.
//
// A departure is recorded before other mounts are searched: of two unmounts of the last two
// mounts of a file system, the later one finds no other mount. Unique mount IDs tell mounts
// apart, so a departure that has not ended yet never stands for a newer mount. Another process
// may unmount the other mounts at the same time.
func (c *Cache) BeginDeparture(ctx context.Context, l kernel.Location) (end func(), outlived bool, err error) {
	if !l.ID.Unique {
		return func() {}, false, nil
	}
	d, id := kernel.Device{Major: l.Major, Minor: l.Minor}, l.ID.Number
	departing.begin(d, id)
	outlived, err = c.hasStaying(ctx, d, id)
	if err != nil && ctx.Err() != nil {
		departing.end(d, id)
		return nil, false, ctxend.Error(ctx)
	}
	return func() { departing.end(d, id) }, outlived && err == nil, nil
}

// hasStaying reports whether a device has a mount that is not departing. mount is a departing
// mount of the device.
func (c *Cache) hasStaying(ctx context.Context, d kernel.Device, mount uint64) (bool, error) {
	departs := func(mount uint64) bool { return departing.includes(d, mount) }
	unlock, err := c.lockFresh(ctx, mount, departs)
	if err != nil {
		return false, err
	}
	defer unlock()
	for other := range c.index.devices[d] {
		if !departs(other) {
			return true, nil
		}
	}
	return false, nil
}
