package volumetest_test

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenAttachers are plugins that attach and detach wrongly.
func brokenAttachers() map[string]broken {
	plugins := map[string]broken{}
	add := func(name, test, says string, does attaching) {
		plugins["attach_"+name] = broken{does.config, test, says}
	}
	add("sound", "Attach.*", "", attaching{})
	add("several_nodes", "AttachElsewhere", "should be a *volume.DanglingAttachError: <nil>", attaching{everywhere: true})
	add("no_node_named", "AttachElsewhere", "should be a *volume.DanglingAttachError: it does not work", attaching{plain: true})
	add("no_limit", "AttachTooMany", "exceeds its maximum volume count", attaching{unlimited: true})
	add("final", "AttachTooMany", "exceeds its maximum volume count", attaching{plain: true})
	add("needs_spec", "Attach", "no specification", attaching{needsSpec: true})
	add("needs_no_spec", "Attach", "an entry for each specification", attaching{ignoresSpec: true})
	add("goes_on", "AttachEndedContext", "context canceled", attaching{goesOn: true})
	return plugins
}

type attaching struct {
	*volumetest.FakePlugin
	everywhere, plain, unlimited, needsSpec, ignoresSpec, goesOn bool

	volume.Attacher
	volume.Detacher
}

func (p attaching) config() volumetest.Config[*testing.T] {
	config := fakeConfig()
	config.New = func(_ *testing.T, _ volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		p := p
		fake := volumetest.FakeConfig{Mounter: mounter, MaxVolumes: config.MaxVolumes}
		if p.unlimited {
			fake.MaxVolumes = 0
		}
		p.FakePlugin = volumetest.NewFakePlugin(fake)
		return &p
	}
	return config
}

func (p *attaching) NewAttacher() (volume.Attacher, error) {
	var err error
	p.Attacher, err = p.FakePlugin.NewAttacher()
	return p, err
}

func (p *attaching) NewDetacher() (volume.Detacher, error) {
	var err error
	p.Detacher, err = p.FakePlugin.NewDetacher()
	return p, err
}

func (p *attaching) Attach(ctx context.Context, spec *volume.Spec, node types.NodeName) (string, error) {
	if p.goesOn {
		ctx = context.WithoutCancel(ctx)
	}
	if p.everywhere && spec != nil && spec.PersistentVolume != nil {
		other := *spec.PersistentVolume
		other.Spec.AccessModes = nil
		spec = volume.NewSpecFromPersistentVolume(&other, spec.ReadOnly)
	}
	path, err := p.Attacher.Attach(ctx, spec, node)
	if p.plain && err != nil {
		err = errors.New("it does not work")
	}
	return path, err
}

func (p *attaching) Detach(ctx context.Context, req volume.DetachRequest) error {
	switch {
	case p.needsSpec && req.Spec == nil:
		return errors.New("no specification")
	case p.ignoresSpec && req.Spec != nil:
		return nil
	}
	return p.Detacher.Detach(ctx, req)
}
