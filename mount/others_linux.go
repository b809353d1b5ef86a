package mount

import (
	"context"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// goings counts the mounts of each file system that this process is unmounting.
var goings = struct {
	turn   keylock.Map // has one key
	counts map[device]int
}{counts: map[device]int{}}

// goes notes that a mount is on its way out, until gone is called. Others reports
// that its file system does not end with it: more mounts of it are in the table than
// are on their way out. Then no hold is needed, which costs as much as the unmount.
//
// Another process can unmount the others in the same instant.
func (m *Mounter) goes(ctx context.Context, s standing) (gone func(), others bool, err error) {
	unlock, err := goings.turn.Lock(ctx, "")
	if err != nil {
		return nil, false, ctxend.Error(ctx)
	}
	defer unlock()
	d := device{s.major, s.minor}
	mounts, err := m.cache.count(ctx, d)
	if err != nil && ctx.Err() != nil {
		return nil, false, ctxend.Error(ctx)
	}
	others = err == nil && mounts >= 2+goings.counts[d]
	goings.counts[d]++
	return func() { isGone(d) }, others, nil
}

func isGone(d device) {
	unlock, err := goings.turn.Lock(context.Background(), "")
	if err != nil {
		return // it does not end
	}
	defer unlock()
	if goings.counts[d]--; goings.counts[d] == 0 {
		delete(goings.counts, d)
	}
}
