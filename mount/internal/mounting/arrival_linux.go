package mounting

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/inflight"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/unmounting"
	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// An arrival is one mount on its way into the mount table.
type arrival struct {
	maker *Maker
	spec  *spec.Spec
	given options.Options // of the spec; an attempt may change them for its source
	claim *inflight.Claim
	lease *inflight.Lease // of the target, also held by calls in flight

	target target
	source *building.Source // nil: a file system
	tree   *building.Tree
}

// newArrival returns an arrival without descriptors.
func (m *Maker) newArrival(s *spec.Spec) arrival {
	return arrival{maker: m, spec: s, given: s.Options, target: noTarget}
}

// run mounts, or changes flags. An arrival that was overtaken finds the other mount in its
// next attempt, unless that mount has left by then.
func (a *arrival) run(ctx context.Context) error {
	if a.spec.Remount {
		return a.remount(ctx)
	}
	const maxAttempts = 8
	for range maxAttempts - 1 {
		if err := a.attempt(ctx); !errors.Is(err, errOvertaken) {
			return err
		}
	}
	return a.attempt(ctx)
}

// attempt resolves source and target, builds the tree and attaches it.
func (a *arrival) attempt(ctx context.Context) error {
	defer a.close()
	a.spec.Options = a.given
	if err := a.openTarget(ctx); err != nil {
		return err
	}
	if a.claim.MustNotWait && !a.isLocal() {
		return errMayWait
	}
	if !a.spec.IsBind() && !a.target.dir {
		return fmt.Errorf("target: a file system requires a directory: %w", unix.ENOTDIR)
	}
	if a.spec.IsBind() {
		if err := a.openSource(ctx); err != nil {
			return err
		}
	}
	if a.target.mounted && !a.spec.Stack {
		return a.checkExisting(ctx)
	}
	if a.source != nil {
		if err := a.checkSubmounts(ctx); err != nil {
			return err
		}
	}
	if err := a.build(ctx); err != nil {
		return err
	}
	return a.attach(ctx)
}

// close closes the descriptors of an attempt.
func (a *arrival) close() {
	if a.tree != nil {
		a.tree.Release()
	}
	if a.source != nil {
		a.source.Close()
	}
	a.target.close()
	a.tree, a.source, a.target = nil, nil, noTarget
}

// openSource opens the source, which must be a directory if the target is one.
func (a *arrival) openSource(ctx context.Context) (err error) {
	a.source, err = building.OpenSource(ctx, a.maker.Resolver.WithoutLinks(), a.spec)
	if err == nil && a.source.ID.Dir != a.target.dir {
		err = fmt.Errorf("one of source and target is a directory, the other is not: %w", unix.ENOTDIR)
	}
	return err
}

// build builds the tree. If a tree cannot prove that its source is alone, build reads the
// mount table instead.
func (a *arrival) build(ctx context.Context) (err error) {
	if a.source == nil {
		return a.buildFileSystem(ctx)
	}
	a.tree, err = a.maker.Builder.BuildBind(a.source, a.spec)
	if !building.IsNotLone(err) {
		return err
	}
	a.source.WaiveProof()
	if err := a.refuseSubmounts(ctx); err != nil {
		return err
	}
	a.tree, err = a.maker.Builder.BuildBind(a.source, a.spec)
	return err
}

// buildFileSystem builds the mount of a file system, which may wait for a server or a device.
// It returns soon after ctx ends. The call in flight keeps the target locked until the kernel
// has completed it, and releases a late tree.
func (a *arrival) buildFileSystem(ctx context.Context) (err error) {
	builder, s, lease := a.maker.Builder, a.spec, a.lease
	lease.Share()
	a.tree, err = inflight.Await(ctx, func() (*building.Tree, error) {
		defer lease.Release()
		return builder.BuildFileSystem(ctx, s)
	}, func(late *building.Tree, err error) {
		if err == nil {
			late.Release()
		}
	})
	return err
}

// attach attaches the tree under the claim. It may wait, since the kernel locks the target's
// directory, in which a lookup may wait for a file system.
func (a *arrival) attach(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	if !a.claim.Acquire() {
		return inflight.ErrRevoked
	}
	return a.attachAndVerify(ctx)
}

// attachAndVerify attaches the tree, and reverts that if the target shows another mount than
// the requested one.
func (a *arrival) attachAndVerify(ctx context.Context) error {
	if err := a.tree.AttachTo(a.target.fd, a.target.made); err != nil {
		return err
	}
	err := a.verify()
	if err == nil {
		return nil
	}
	attachment := unmounting.Attachment{FD: a.tree.FD, Parent: a.target.parent, Name: a.target.name}
	if revert := unmounting.Revert(ctx, attachment); revert != nil {
		return failure.AsUncertain(fmt.Errorf("%w (unmounting: %w)", err, revert))
	}
	return err
}
