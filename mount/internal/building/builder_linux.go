package building

import (
	"context"

	"github.com/volumekit/volumekit/mount/internal/helper"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/nfs"
	"github.com/volumekit/volumekit/mount/internal/spec"
)

// A Builder builds trees. It must not be copied after first use.
type Builder struct {
	Tier       Tier
	StagingDir string
	Helpers    helper.Catalog
	Anchors    Anchors
}

// A draft has the parts from which a tree is built.
type draft struct {
	tier   Tier
	spec   *spec.Spec
	source *Source // nil: a file system
}

// BuildBind builds a bind mount of the source, and verifies that it shows the source.
func (b *Builder) BuildBind(source *Source, s *spec.Spec) (*Tree, error) {
	tree, err := b.build(source, s)
	if err != nil {
		return nil, err
	}
	if err := tree.verifySource(source); err != nil {
		tree.Release()
		return nil, err
	}
	return tree, nil
}

// BuildFileSystem builds a mount of a file system: by the helper of its type, or by the
// kernel alone. It may wait for a server or a device.
func (b *Builder) BuildFileSystem(ctx context.Context, s *spec.Spec) (*Tree, error) {
	program, err := b.Helpers.Find(s)
	switch {
	case err != nil:
		return nil, err
	case program != "":
		return b.buildByHelper(ctx, program, s)
	case mountinfo.IsNFS(s.FSType):
		return nfs.Mount(ctx, s, b.buildByKernel)
	}
	return b.buildByKernel(s)
}

// buildByKernel builds a mount of a file system by the kernel alone.
func (b *Builder) buildByKernel(s *spec.Spec) (*Tree, error) { return b.build(nil, s) }

// build builds with the selected tier. If a system call filter forbids its calls, build uses
// the classic tier.
func (b *Builder) build(source *Source, s *spec.Spec) (*Tree, error) {
	tier, err := b.SelectTier()
	if err != nil {
		return nil, err
	}
	d := draft{tier, s, source}
	if tier == TierClassic || b.Tier == TierAuto && source == nil && isTooLong(s) {
		return d.buildStaged(b.StagingDir)
	}
	var tree *Tree
	if source != nil && source.proof == proofByStaging {
		tree, err = d.buildProven(b.StagingDir)
	} else {
		tree, err = d.buildDetached()
	}
	if b.mayFallBack(err) {
		return d.buildStaged(b.StagingDir)
	}
	return tree, err
}
