package volumetest_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenProvisioners are plugins that create and delete storage wrongly.
func brokenProvisioners() map[string]broken {
	plugins := map[string]broken{}
	add := func(name, test, says string, does provisioning) {
		plugins["provision_"+name] = broken{does.config, test, says}
	}
	add("sound", "Provision.*", "", provisioning{})
	add("sound_delete", "DeleteForeign", "", provisioning{})
	add("anew", "Provision", "the volume is provisioned already", provisioning{anew: true})
	add("undescribed", "Provision", "the volume has", provisioning{small: true})
	add("of_another", "ProvisionClasses", "the class of another", provisioning{greedy: true})
	add("for_another_node", "ProvisionOtherNode", "should be an error", provisioning{anywhere: true})
	add("infeasible_again", "ProvisionBad", "want final", provisioning{hopeful: true})
	add("unasked_block", "ProvisionBlock", "should be an error", provisioning{noBlock: true})
	add("leaks", "ProvisionOtherNode", "another node", provisioning{leaks: true})
	add("goes_on", "ProvisionEndedContext", "context canceled", provisioning{goesOn: true})
	add("deletes_all", "DeleteForeign", "should be a *volume.IgnoredError: <nil>", provisioning{deletesAll: true})
	return plugins
}

type provisioning struct {
	*volumetest.FakePlugin
	anew, small, greedy, anywhere, hopeful, noBlock, leaks, goesOn, deletesAll bool
	dir                                                                        string
	options                                                                    volume.VolumeOptions
}

func (p provisioning) config() volumetest.Config[*testing.T] {
	config := fakeConfig()
	config.New = func(_ *testing.T, host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin {
		p := p
		fake := volumetest.FakeConfig{Mounter: mounter, Nodes: []types.NodeName{"node-1"}}
		if p.anywhere {
			fake.Nodes = nil
		}
		p.dir = host.Root() + "/leak"
		p.FakePlugin = volumetest.NewFakePlugin(fake)
		return &p
	}
	return config
}

func (p *provisioning) SupportsBlock(ctx context.Context) bool {
	return !p.noBlock && p.FakePlugin.SupportsBlock(ctx)
}

func (p *provisioning) NewProvisioner(options volume.VolumeOptions) (volume.Provisioner, error) {
	if p.greedy {
		options.StorageClass = storagev1.StorageClass{}
	}
	_, err := p.FakePlugin.NewProvisioner(options)
	other := *p
	other.options = options
	return &other, err
}

var provisionCount int

func (p *provisioning) Provision(ctx context.Context) (*v1.PersistentVolume, error) {
	if p.goesOn {
		ctx = context.WithoutCancel(ctx)
	}
	able, err := p.FakePlugin.NewProvisioner(p.options)
	if err != nil {
		return nil, err
	}
	pv, err := able.Provision(ctx)
	if err != nil {
		if p.leaks {
			_ = os.WriteFile(p.dir, nil, 0o600)
		}
		if p.hopeful {
			err = fmt.Errorf("%w: %w", volume.ErrTransient, err)
		}
		return nil, err
	}
	if p.anew {
		provisionCount++
		pv.Annotations = map[string]string{"number": fmt.Sprint(provisionCount)}
	}
	if p.small {
		pv.Spec.Capacity = nil
	}
	return pv, nil
}

func (p *provisioning) NewDeleter(spec *volume.Spec) (volume.Deleter, error) {
	if p.deletesAll {
		return anyDeleter{}, nil
	}
	return p.FakePlugin.NewDeleter(spec)
}

type anyDeleter struct{}

func (anyDeleter) Delete(context.Context) error { return nil }
