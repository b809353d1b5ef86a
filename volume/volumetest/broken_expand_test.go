package volumetest_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenExpansions are plugins that expand wrongly.
func brokenExpansions() map[string]broken {
	plugins := map[string]broken{}
	add := func(name, test, says string, does expanding) {
		plugins["expand_"+name] = broken{does.config, test, says}
	}
	add("sound", "Expand.*", "", expanding{})
	add("too_early", "Expand", "the storage is not as large as that", expanding{early: true})
	add("once", "Expand", "and so it is if it is asked again", expanding{once: true})
	add("takes_down", "Expand", "growing a volume changed what is mounted", expanding{takesDown: true})
	add("anything", "ExpandBad", "should be an error", expanding{anything: true})
	add("goes_on", "ExpandEndedContext", "context canceled", expanding{goesOn: true})
	add("gives_up", "ExpandEveryFailure", "after list fails", expanding{givesUp: true})
	add("storage_sound", "ExpandStorage.*", "", expanding{})
	add("storage_shrinks", "ExpandStorage", "storage has shrunk", expanding{shrinks: true})
	add("storage_without_limit", "ExpandStorage", "infeasible", expanding{unlimited: true})
	add("storage_in_use", "ExpandStorageOffline", "failed precondition", expanding{unlimited: true})
	plugins["expand_not_mentioned"] = broken{func() volumetest.Config[*testing.T] {
		config := expanding{}.config()
		config.Enlarge = nil
		return config
	}, "Expand", "the configuration needs Enlarge"}
	plugins["expand_only_mentioned"] = broken{func() volumetest.Config[*testing.T] {
		return wrapFake(func(fake *volumetest.FakePlugin, _ volume.VolumeHost) volume.VolumePlugin {
			return struct{ volume.VolumePlugin }{fake}
		})
	}, "Expand", "the plugin is no NodeExpandableVolumePlugin"}
	return plugins
}

// expanding reads the mount table first, as plugins do that grow mounted file systems.
type expanding struct {
	*volumetest.FakePlugin
	early, once, takesDown, anything, goesOn, givesUp bool
	shrinks, unlimited                                bool

	size  func(*volume.Spec) int64
	grown *atomic.Int64
	given error
}

func (p expanding) config() volumetest.Config[*testing.T] {
	var disks storage
	config := fakeConfig()
	config.Enlarge = disks.enlarge
	config.New = func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		p := p
		p.size, p.grown = disks.size, new(atomic.Int64)
		fake := volumetest.FakeConfig{Mounter: mounter, Size: disks.size, MaxSize: 1 << 40, OfflineExpansion: true}
		if p.unlimited {
			fake.MaxSize, fake.OfflineExpansion = 0, false
		}
		p.FakePlugin = volumetest.NewFakePlugin(fake)
		return &p
	}
	return config
}

func (p *expanding) ExpandVolumeDevice(ctx context.Context, req volume.ExpandRequest) (volume.ExpandResult, error) {
	result, err := p.FakePlugin.ExpandVolumeDevice(ctx, req)
	if p.shrinks && err == nil {
		result.Size = req.NewSize
	}
	return result, err
}

func (p *expanding) NodeExpand(ctx context.Context, req volume.NodeResizeOptions) (bool, error) {
	if p.goesOn {
		ctx = context.WithoutCancel(ctx)
	}
	table, err := p.Mounter().List(ctx)
	if err != nil || p.given != nil {
		if p.givesUp {
			p.given = errors.Join(p.given, err)
		}
		return false, errors.Join(err, p.given)
	}
	if p.anything && req.Spec.Validate() != nil {
		return true, nil
	}
	done, err := p.FakePlugin.NodeExpand(ctx, req)
	if err != nil {
		return done, err
	}
	return p.breaks(ctx, req, done, table)
}

func (p *expanding) breaks(ctx context.Context, req volume.NodeResizeOptions, done bool, table mount.Table) (bool, error) {
	size := p.size(req.Spec)
	switch {
	case p.early:
		return true, nil
	case p.once && done && size == p.grown.Load():
		return false, errors.New("it has that size")
	case p.takesDown && done && len(table) > 1:
		return true, p.Mounter().Unmount(ctx, table[len(table)-1].Mountpoint)
	case done:
		p.grown.Store(size)
	}
	return done, nil
}
