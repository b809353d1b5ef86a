package volumetest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenTargets are plugins that tear volumes down by path wrongly.
func brokenTargets() map[string]broken {
	of := func(p unmounting) func() volumetest.Config[*testing.T] {
		return func() volumetest.Config[*testing.T] {
			return wrapFake(func(fake *volumetest.FakePlugin, host volume.VolumeHost) volume.VolumePlugin {
				p := p
				p.FakePlugin, p.host = fake, host
				return &p
			})
		}
	}
	return map[string]broken{
		"target_sound":     {of(unmounting{}), "Target.*", ""},
		"target_stays":     {of(unmounting{stays: true}), "Target", "file does not exist"},
		"target_root_only": {of(unmounting{rootOnly: true}), "Target", "only below the root"},
		"target_anywhere":  {of(unmounting{anywhere: true}), "TargetBad", "should be an error"},
	}
}

type unmounting struct {
	*volumetest.FakePlugin
	host                      volume.VolumeHost
	stays, rootOnly, anywhere bool
}

func (p *unmounting) NewUnmounterAt(path string) (volume.Unmounter, error) {
	u, err := p.FakePlugin.NewUnmounterAt(path)
	switch {
	case p.rootOnly:
		return nil, errors.New("only below the root")
	case p.anywhere:
		return u, nil
	case p.stays && err == nil:
		return idleUnmounter{u}, nil
	}
	return u, err
}

// An idleUnmounter does nothing.
type idleUnmounter struct{ volume.Unmounter }

func (idleUnmounter) TearDown(context.Context) error { return nil }
