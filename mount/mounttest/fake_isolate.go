package mounttest

import (
	"context"
	"path"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
)

var _ mount.Isolator = (*Fake)(nil)

// Isolate implements [mount.Isolator].
func (f *Fake) Isolate(ctx context.Context, target string) error {
	target = tablepath.Of(target)
	if err := checkTarget(target); err != nil {
		return f.finish(Action{Op: OpIsolate, Target: target}, err)
	}
	target = path.Clean(target)
	return f.change(ctx, Action{Op: OpIsolate, Target: target}, func() error { return f.isolate(target) })
}

func (f *Fake) isolate(target string) error {
	at, err := f.lookup(target)
	if err != nil || !at.isMountPoint() {
		return err
	}
	for _, m := range f.kernel.insideFirst(at.in) {
		f.kernel.setPropagation(m, mount.PropagationPrivate)
	}
	return nil
}
