package mount

import (
	"context"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// isolate asks nothing of the file system that is mounted at target.
func (m *Mounter) isolate(ctx context.Context, target string) error {
	unlock, err := m.changing.Lock(ctx, target)
	if err != nil {
		return ctxend.Error(ctx)
	}
	defer unlock()
	parent, name, err := lookup{m: m, ctx: ctx}.parent(target)
	if err != nil {
		return err
	}
	defer closeFD(parent)
	fd, err := lookup{m: m, ctx: ctx, followLinks: true}.child(parent, name)
	if err != nil {
		return err
	}
	defer closeFD(fd)
	return makePrivate(fd, parent)
}

// makePrivate changes what fd leads to, if that is a mount in the directory above it.
func makePrivate(fd, parent int) error {
	above, err := standingOf(parent)
	if err != nil {
		return err
	}
	if at, err := standingOf(fd); err != nil || !at.isMountIn(above) {
		return err
	}
	return unix.Mount("", procFD(fd), "", unix.MS_PRIVATE|unix.MS_REC, "")
}
