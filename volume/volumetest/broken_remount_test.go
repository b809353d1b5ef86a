package volumetest_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenRemounts are plugins that repeat a SetUp wrongly.
func brokenRemounts() map[string]broken {
	of := func(p remounting) func() volumetest.Config[*testing.T] {
		return func() volumetest.Config[*testing.T] {
			return wrapFake(func(fake *volumetest.FakePlugin, _ volume.VolumeHost) volume.VolumePlugin {
				p := p
				p.FakePlugin = fake
				return &p
			})
		}
	}
	return map[string]broken{
		"remount_sound":      {of(remounting{}), "Remount", ""},
		"remount_anew":       {of(remounting{anew: true}), "Remount", "a repetition changed what is mounted"},
		"remount_cleans_up":  {of(remounting{cleansUp: true}), "Remount", "one mount for one volume"},
		"remount_needs_up":   {of(remounting{needsUp: true}), "Remount", "it is not up"},
		"remount_needs_none": {of(remounting{needsNone: true}), "Remount", "it is told where"},
	}
}

type remounting struct {
	*volumetest.FakePlugin
	anew, cleansUp, needsUp, needsNone bool
}

func (p *remounting) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	if err != nil {
		return nil, err
	}
	return &remounter{m, p}, nil
}

type remounter struct {
	volume.Mounter
	plugin *remounting
}

func (m *remounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	kernel := m.plugin.Mounter()
	switch {
	case m.plugin.needsNone && args.DeviceMountPath != "":
		return errors.New("not asked for")
	case m.plugin.anew && args.IsRemount:
		if err := kernel.Unmount(ctx, m.GetPath()); err != nil {
			return err
		}
	case m.plugin.needsUp && args.IsRemount:
		if up, err := kernel.IsMountPoint(ctx, m.GetPath()); err != nil || !up {
			return errors.Join(errors.New("nothing to repeat"), err)
		}
	}
	err := m.Mounter.SetUp(ctx, args)
	if err != nil && m.plugin.cleansUp {
		_ = kernel.Unmount(ctx, m.GetPath())
	}
	return err
}
