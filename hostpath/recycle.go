package hostpath

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Recycle implements [volume.Recycler] by [Config.Recycler], for directories strictly below
// one of [Config.RecycleRoots]: others are a [*field.Error]. Without a recycler, or if the
// volume is read-only or no directory, the error wraps [volume.ErrNotSupported].
func (p *Plugin) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	s, err := p.source(spec)
	if err != nil {
		return err
	}
	switch {
	case p.config.Recycler == nil:
		return fmt.Errorf("recycle without hostpath.Config.Recycler: %w", volume.ErrNotSupported)
	case spec.IsReadOnly():
		return fmt.Errorf("recycle a read-only volume: %w", volume.ErrNotSupported)
	}
	if err := p.checkSpoils(spec, s); err != nil {
		return err
	}
	there, err := p.lookInTime(ctx, s.path)
	if err != nil {
		return &TypeError{Path: s.path, Want: s.kind, Err: err}
	}
	if !there.mode.IsDir() {
		return fmt.Errorf("recycle %q: not a directory: %w", s.path, volume.ErrNotSupported)
	}
	return p.config.Recycler.Recycle(ctx, name, spec)
}

// checkSpoils requires that the files at the path may be deleted: both lists must permit the
// same resolved path.
func (p *Plugin) checkSpoils(spec *volume.Spec, s source) error {
	written, at := sourceOf(spec)
	found, root, err := p.spoils.Find(at.Child("path"), written.Path)
	if err != nil || found == root || found != s.path {
		return field.Forbidden(at.Child("path"), "must be below one of Config.RecycleRoots")
	}
	return nil
}
