package contract

import (
	"context"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

// plantedCalls are the calls for a volume with an entry of a pod. Each must return, and change nothing outside.
type plantedCalls struct {
	*contract
	spec         *volume.Spec
	current      volume.VolumePlugin // after the last restart
	podMounter   volume.Mounter
	podUnmounter volume.Unmounter
	args         volume.MounterArgs
	outside      outside
	path         string // of the entry
	after        string // "after the pod has ...", for messages
}

func (p *plantedCalls) restart() {
	p.Helper()
	p.current = p.New(p.host, p.mounter)
	err := p.call("Init", "leave the volumes alone", func(ctx context.Context) error { return p.current.Init(ctx, p.host) })
	require.NoError(p, err)
}

// open gets the Mounter and the Unmounter.
func (p *plantedCalls) open() {
	p.Helper()
	const advice = "leave the volume alone"
	err := p.call("NewMounter", advice, func(context.Context) (err error) {
		p.podMounter, err = p.current.NewMounter(p.spec, p.pod)
		return err
	})
	require.NoError(p, err)
	err = p.call("NewUnmounter", advice, func(context.Context) (err error) {
		p.podUnmounter, err = p.current.NewUnmounter(p.spec.Name(), p.pod.UID)
		return err
	})
	require.NoError(p, err)
}

func (p *plantedCalls) setUp() {
	p.Helper()
	args, _ := p.callersArgs(p.spec, p.args)
	if p.outside.hardLink { // util/ownership gives the file to the pod, as its doc says
		args.FsGroup, args.FsUser = nil, nil
	}
	const advice = "write by util/atomicdir, or open below a descriptor of the volume, follow no link, " +
		"and open no file to write that exists"
	_ = p.call("SetUp", advice, func(ctx context.Context) error { return p.podMounter.SetUp(ctx, args) })
}

func (p *plantedCalls) measure() {
	p.Helper()
	_ = p.call("GetMetrics", "measure by util/metrics", func(ctx context.Context) error {
		_, err := p.podMounter.GetMetrics(ctx)
		return err
	})
}

func (p *plantedCalls) construct() {
	p.Helper()
	dir, err := p.host.PodVolumeDir(p.pod.UID, p.current.GetPluginName(), p.spec.Name())
	require.NoError(p, err)
	_ = p.call("ConstructVolumeSpec", "keep the record outside of the volume", func(ctx context.Context) error {
		_, err := p.current.ConstructVolumeSpec(ctx, p.spec.Name(), dir)
		return err
	})
}

func (p *plantedCalls) tearDown() {
	p.Helper()
	err := p.call("TearDown", "delete by util/scrub", p.podUnmounter.TearDown)
	require.NoError(p, err, "TearDown %s", p.after)
	_, err = os.Lstat(p.podUnmounter.GetPath())
	require.ErrorIs(p, err, fs.ErrNotExist, "TearDown %s has left the directory", p.after)
}

func (p *plantedCalls) call(name, advice string, work func(context.Context) error) error {
	p.Helper()
	what := name + " " + p.after
	err := p.mustReturn(p.path, what, work)
	p.outside.requireUnchanged("%s has changed a file outside of the volume: %s", what, advice)
	return err
}
