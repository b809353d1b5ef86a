package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A job is an operation with all that it needs to know, so that it asks nobody while
// it runs.
type job struct {
	operation
	plugin     volume.VolumePlugin
	pluginName string
	name       string       // as the plugin calls the volume
	spec       *volume.Spec // nil: not known, after a restart
	traits     traits
	pod        *v1.Pod                 // of attach, mountDevice and setUp
	args       volume.MounterArgs      // of setUp, and the FsGroup of mountDevice
	revision   int64                   // of setUp
	outer      string                  // the volume's name in the pod, of setUp
	subpaths   func(outer string) bool // of tearDown: which volume's parts go before
	lastPod    podKey                  // one that the volume was mapped for

	devicePath      string
	deviceMountPath string
	size            *resource.Quantity // of expand
	oldSize         *resource.Quantity

	before *actualVolume
	record *record // to be on disk before; nil: none
}

// An outcome is what became of a job.
type outcome struct {
	job
	took time.Duration
	err  error

	// mounted says that the volume is a mount of its own, so that it can vanish.
	mounted bool
	mount   uint64
	path    string
	at      spot // of what failed
	// readOnly says that the mount for all pods is one for pods that only read.
	readOnly bool
	after    *actualVolume
	silent   bool // nothing to tell
}

// carryOut writes down what is about to be there, does it, and strikes it out if there
// is nothing. As long as that fails there may be something: what was done is done again.
func (m *Manager) carryOut(ctx context.Context, j job) outcome {
	out := outcome{job: j, err: m.prepare(&j)}
	if out.err == nil {
		out = m.run(ctx, j)
	}
	out.after = advance(j.before, out)
	if j.traits.shared() && out.after.isNothing() {
		if err := m.disk.remove(j.volume); err != nil {
			out.err = fmt.Errorf("%w: %w", volume.ErrUncertain, errors.Join(out.err, err))
			out.after = advance(j.before, out)
		}
	}
	return out
}

// prepare writes the record. Where the volume is mounted for all pods belongs in it: a
// run that was killed just after mounting it did not say.
func (m *Manager) prepare(j *job) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w: %w", volume.ErrTransient, err)
		}
	}()
	if (j.verb == mountDevice || j.verb == unmountDevice) && j.deviceMountPath == "" {
		if j.deviceMountPath, err = deviceMountPath(*j); err != nil {
			return err
		}
	}
	if j.record == nil {
		return nil
	}
	j.record.DeviceMountPath = j.deviceMountPath
	if j.pod != nil {
		j.record.For = &podRecord{j.pod.UID, j.spec.Name()}
	}
	return m.disk.write(*j.record)
}

// run carries the job out. A panic of a plugin is an error after which nothing is
// known.
func (m *Manager) run(ctx context.Context, j job) (out outcome) {
	begin := time.Now()
	defer func() { out.job, out.took = j, time.Since(begin) }()
	defer recovered(&out.err)
	ctx, cancel := context.WithTimeout(ctx, m.config.Timeout)
	defer cancel()
	switch j.verb {
	case attach:
		j.devicePath, out.err = m.attacher.Attach(ctx, m.attachment(j))
	case detach:
		out.err = m.attacher.Detach(ctx, m.attachment(j))
	case mountDevice:
		out.readOnly, out.err = m.mountDevice(ctx, j)
		if (out.err == nil || out.readOnly) && !j.traits.block {
			_, out.mount, _ = m.mountAt(ctx, j.deviceMountPath) // unknown, it is not told apart from others
		}
	case unmountDevice:
		out.err = m.unmountDevice(ctx, j)
	case setUp:
		out.err = m.setUp(ctx, j, &out)
	case tearDown:
		out.err = m.tearDown(ctx, j, &out)
	case expand:
		out.err = m.expand(ctx, j)
		if errors.Is(out.err, errNothingToGrow) {
			out.err, out.silent = nil, true
		}
	}
	if out.err = cutShort(ctx, j.verb, out.err); out.err != nil {
		out.at = m.spotOf(ctx, j, out)
	}
	return out
}

// cutShort: what was ended while it brought something up may have done half of it, and
// many a plugin returns no more than the context's error then.
func cutShort(ctx context.Context, v verb, err error) error {
	if err == nil || ctx.Err() == nil || !isUp(v) || errors.Is(err, volume.ErrTransient) {
		return err
	}
	return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
}

func (m *Manager) attachment(j job) Attachment {
	return Attachment{Plugin: j.plugin, Volume: j.volume, Name: j.name, Spec: j.spec, Node: m.config.Host.NodeName(), Pod: j.pod}
}

func (m *Manager) setUp(ctx context.Context, j job, out *outcome) (err error) {
	if j.traits.block {
		out.path, err = m.mapDevice(ctx, j)
		return err
	}
	if err := checkOptions(j.plugin, j.spec); err != nil {
		return err
	}
	mounter, err := j.plugin.NewMounter(j.spec, j.pod)
	if err != nil {
		return err
	}
	out.path = mounter.GetPath()
	if err := mounter.SetUp(ctx, j.args); err != nil {
		return err
	}
	if out.mounted, out.mount, err = m.mountAt(ctx, out.path); err != nil {
		return fmt.Errorf("%w: set up, and asking whether it is mounted: %w", volume.ErrUncertain, err)
	}
	if out.mount != 0 && j.before.stateOf(j.operation.pod) == uncertain {
		// Somebody is at work there, perhaps: what was asked about may be theirs.
		return mounter.SetUp(ctx, j.args)
	}
	return nil
}

// checkOptions keeps mount options from plugins that would not look at them.
func checkOptions(plugin volume.VolumePlugin, spec *volume.Spec) error {
	able, ok := volume.As[volume.MountOptionsVolumePlugin](plugin)
	if len(spec.MountOptions()) > 0 && (!ok || !able.SupportsMountOption()) {
		return fmt.Errorf("mount options for %s: %w", plugin.GetPluginName(), volume.ErrNotSupported)
	}
	return nil
}

func (m *Manager) tearDown(ctx context.Context, j job, out *outcome) error {
	if j.traits.block {
		return m.unmapDevice(ctx, j)
	}
	unmounter, err := j.plugin.NewUnmounter(j.operation.pod.name, j.operation.pod.pod)
	if err != nil {
		return err
	}
	out.path = unmounter.GetPath()
	if err := m.disk.unmountSubpaths(ctx, j.operation.pod.pod, j.subpaths); err != nil {
		return err
	}
	if err := unmounter.TearDown(ctx); err != nil {
		return err
	}
	return m.disk.tidy(out.path)
}
