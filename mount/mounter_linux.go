package mount

import (
	"context"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/child"
	"github.com/volumekit/volumekit/mount/internal/mounting"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/staging"
	"github.com/volumekit/volumekit/mount/internal/unmounting"
)

// parts are the parts of a Mounter that only Linux has.
type parts struct {
	kinds     record.Kinds
	probes    child.Probes
	builder   building.Builder
	maker     *mounting.Maker
	unmounter *unmounting.Unmounter
}

// connect creates the parts.
func (m *Mounter) connect() {
	m.builder.Tier = building.Tier(m.config.Tier)
	m.builder.StagingDir = m.config.StagingDir
	m.builder.Helpers = m.config.helpers()
	m.maker = mounting.New(mounting.Config{
		Builder:  &m.builder,
		Resolver: &m.resolver,
		Kinds:    &m.kinds,
		Locks:    &m.changing,
		Cache:    &m.cache,
		Probes:   &m.probes,
	})
	m.unmounter = unmounting.New(unmounting.Config{
		Policy:         m.config.Unmount.steps(),
		Resolver:       &m.resolver,
		Locks:          &m.changing,
		Kinds:          &m.kinds,
		Probes:         &m.probes,
		BeginDeparture: m.cache.BeginDeparture,
		ForgetAnchor:   m.builder.Anchors.Forget,
	})
}

// close releases the descriptors of the parts.
func (p *parts) close() { p.builder.Anchors.Close() }

// steps returns the permitted steps of the escalation.
func (p UnmountPolicy) steps() unmounting.Policy {
	return unmounting.Policy{
		MayForce:  p.Last != UnmountPlain,
		MayDetach: p.Last == UnmountQuarantine,
		Grace:     p.grace(),
	}
}

// sweepStages removes the staging areas of killed processes.
func (m *Mounter) sweepStages() { staging.RemoveStale(m.config.StagingDir) }

// Tiers returns the tiers that the running kernel offers, the oldest first.
func Tiers() []Tier {
	tiers := []Tier{TierClassic}
	for tier := TierDetached; tier <= Tier(building.KernelTier()); tier++ {
		tiers = append(tiers, tier)
	}
	return tiers
}

func (m *Mounter) mount(ctx context.Context, s *spec.Spec) error { return m.maker.Mount(ctx, s) }

func (m *Mounter) mountNew(ctx context.Context, s *spec.Spec, dir NewDirectory) (bool, error) {
	return m.maker.MountNew(ctx, s, mounting.NewDirectory{Perm: dir.Perm, Below: dir.Below, MayWait: dir.Wait == MayWait})
}

func (m *Mounter) unmount(ctx context.Context, target string) error {
	if err := m.config.Unmount.check(); err != nil {
		return err
	}
	return m.unmounter.Unmount(ctx, target)
}

func (m *Mounter) unmountTree(ctx context.Context, target string) error {
	if err := m.config.Unmount.check(); err != nil {
		return err
	}
	return m.unmounter.UnmountTree(ctx, target)
}

func (m *Mounter) unmountRemove(ctx context.Context, target string, wait Patience) (unmounted, removed bool) {
	return m.unmounter.Remove(ctx, unmounting.Removal{Path: target, MayWait: wait == MayWait})
}

func (m *Mounter) isolate(ctx context.Context, target string) error {
	return m.unmounter.Isolate(ctx, target)
}
