package recycler

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"time"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LocalConfig is what [NewLocal] needs.
type LocalConfig struct {
	// Host says where this node's directories are. Required. Volumes are mounted in
	// the directory of a plugin that is called [LocalName].
	Host volume.VolumeHost
	// Plugin returns the plugin of a volume: VolumePluginMgr.FindPluginBySpec, or a
	// function that calls it. Required.
	Plugin func(*volume.Spec) (volume.VolumePlugin, error)

	// Keep are names at the top of a volume that stay, with what is in them. A
	// directory lost+found stays without.
	Keep []string
	// Workers and PerSecond limit the work on one volume, see [scrub.Options].
	Workers, PerSecond int
	// Progress is told how far the scrubbing of a volume is, from one goroutine for
	// each volume. Nil: nobody is.
	Progress func(volumeName string, counts scrub.Counts)
	// Every is how often. Zero: a second.
	Every time.Duration
}

// LocalName is the name under which [Local] has a directory on the host.
const LocalName = "volumekit.io/recycler"

// A Local recycles in this process: it mounts the volume where no pod is, removes
// what is in it, and looks at it once more through another mount. Make one with
// [NewLocal].
type Local struct {
	config  LocalConfig
	names   keylock.Map // of volumes: each has one directory here; taken first
	storage keylock.Map // by the plugin's name and the one that it gives what is behind the volume
}

var _ volume.Recycler = (*Local)(nil)

// NewLocal returns the recycler. It does nothing yet.
func NewLocal(config LocalConfig) (*Local, error) {
	at := field.NewPath("config")
	switch {
	case config.Host == nil:
		return nil, field.Required(at.Child("host"), "the volumes are mounted somewhere")
	case config.Plugin == nil:
		return nil, field.Required(at.Child("plugin"), "a plugin mounts the volumes")
	case config.Workers < 0:
		return nil, field.Invalid(at.Child("workers"), config.Workers, "not a number of workers")
	case config.PerSecond < 0:
		return nil, field.Invalid(at.Child("perSecond"), config.PerSecond, "not a rate")
	}
	return &Local{config: config}, nil
}

// Recycle implements [volume.Recycler]. It returns nil only if a walk through the
// volume, on a mount made after everything was removed, found nothing but what is
// kept.
//
// What cannot be removed is a [*scrub.UnremovableError], what is found afterwards a
// [*scrub.NotEmptyError]. A volume that is read-only, or a raw block device, is
// refused with an error that wraps [volume.ErrNotSupported]. It changes nothing
// outside of the volume but its own directory, in which nothing is left; unless the
// error wraps [volume.ErrUncertain]: then the volume may still be mounted there,
// which the next call for it undoes first.
//
// When ctx ends, an error that wraps its cause is returned soon; the next call goes
// on with what is left. If the file system does not answer, a system call may still
// be under way then: the next call for the volume waits for its end.
func (l *Local) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	work, err := l.work(name, spec)
	if err != nil {
		return fmt.Errorf("recycle: %w", err)
	}
	if err := work.alone(ctx, work.run); err != nil {
		return fmt.Errorf("recycle %s: %w", name, err)
	}
	return nil
}

// alone runs do as the only one for the volume, and keeps others away from it until
// what do has left at work has ended, too.
func (w *work) alone(ctx context.Context, do func(context.Context) error) error {
	unlock, err := lockBoth(ctx, &w.names, w.name, &w.Local.storage, w.storage)
	if err != nil {
		return fmt.Errorf("waiting for another recycling of it: %w", util.Transient(err))
	}
	if err = do(ctx); w.lingers == nil {
		unlock()
		return err
	}
	go func() { w.lingers(); unlock() }()
	return err
}

// A work is the recycling of one volume.
type work struct {
	*Local
	plugin  volume.VolumePlugin
	spec    *volume.Spec
	name    string
	storage string
	dir     string // of this volume alone
	lingers func() // nil, or waits for what has been left at work
}

// work checks what is asked for, and changes nothing.
func (l *Local) work(name string, spec *volume.Spec) (*work, error) {
	if err := volume.ValidatePathComponent(field.NewPath("name"), name); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	switch {
	case spec.IsReadOnly():
		return nil, fmt.Errorf("a read-only volume: %w", volume.ErrNotSupported)
	case spec.IsBlock():
		return nil, fmt.Errorf("a block volume: %w", volume.ErrNotSupported)
	}
	plugin, err := l.config.Plugin(spec)
	if err != nil {
		return nil, err
	}
	unique, err := plugin.GetVolumeName(spec)
	if err != nil {
		return nil, err
	}
	own, err := l.config.Host.PluginDir(LocalName)
	if err != nil {
		return nil, err
	}
	return &work{
		Local: l, plugin: plugin, spec: spec, name: name,
		storage: plugin.GetPluginName() + "\x00" + unique, dir: path.Join(own, name),
	}, nil
}

// purposes are what the volume is mounted for, each in a directory of its own.
var purposes = []string{"scrub", "verify"}

// run takes down what a process that was killed may have left, empties the volume
// through one mount, and looks at it through the next.
func (w *work) run(ctx context.Context) error {
	for _, purpose := range purposes {
		unmounter, err := w.unmounter(purpose)
		if err == nil {
			err = unmounter.TearDownAt(ctx, w.at(purpose))
		}
		if err != nil {
			return err
		}
	}
	err := w.mounted(ctx, purposes[0], func(root *scrub.Root) error {
		_, err := root.Empty(ctx, w.options())
		return err
	})
	if err == nil {
		err = w.mounted(ctx, purposes[1], func(root *scrub.Root) error { return root.Check(ctx, w.options()) })
	}
	if left := safepath.Rmdir(w.dir); left != nil && !errors.Is(left, fs.ErrNotExist) && err == nil {
		err = util.Transient(left)
	}
	return err
}

// at returns where the volume is mounted.
func (w *work) at(purpose string) string { return path.Join(w.dir, purpose) }

// uid is that of a pod which does not exist.
func uid(purpose string) types.UID { return types.UID("recycler-" + purpose) }

func (w *work) unmounter(purpose string) (volume.Unmounter, error) {
	return w.plugin.NewUnmounter(w.spec.Name(), uid(purpose))
}

func (w *work) options() scrub.Options {
	o := scrub.Options{
		Keep: w.config.Keep, Workers: w.config.Workers, PerSecond: w.config.PerSecond, Every: w.config.Every,
	}
	if w.config.Progress != nil {
		o.Progress = func(counts scrub.Counts) { w.config.Progress(w.name, counts) }
	}
	return o
}

// mounted mounts the volume, does something with it, and unmounts it.
func (w *work) mounted(ctx context.Context, purpose string, do func(*scrub.Root) error) (err error) {
	dir := w.at(purpose)
	unmounter, err := w.unmounter(purpose)
	if err != nil {
		return err
	}
	mounter, err := w.plugin.NewMounter(w.spec, w.pod(uid(purpose)))
	if err != nil {
		return err
	}
	if err := mounter.SetUpAt(ctx, dir, volume.MounterArgs{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.unmount(ctx, unmounter, dir)) }()
	return w.with(ctx, dir, do)
}

// pod is nobody's: the volume is mounted for us.
func (w *work) pod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "recycler-for-" + w.name, UID: uid}}
}

// unmountWithin is how long taking the volume down may take when there is no time
// left.
const unmountWithin = 30 * time.Second

func (w *work) unmount(ctx context.Context, unmounter volume.Unmounter, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmountWithin)
	defer cancel()
	if err := unmounter.TearDownAt(ctx, dir); err != nil {
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	}
	return nil
}

// errNotMounted: what is at the place is the place itself.
var errNotMounted = errors.New("the volume is not mounted where it was a moment ago")

// with opens the root of the volume, and makes sure that it is that.
func (w *work) with(ctx context.Context, dir string, do func(*scrub.Root) error) error {
	around, err := scrub.Open(path.Dir(dir))
	if err != nil {
		return util.Transient(err)
	}
	defer func() { _ = around.Close() }()
	root, err := scrub.Open(dir)
	if err != nil {
		return util.Transient(err)
	}
	defer w.release(ctx, root)
	if root.Identity().Mount == around.Identity().Mount {
		return util.Transient(errNotMounted)
	}
	return do(root)
}

// release closes the root, or leaves that to a worker who is still in a system call.
func (w *work) release(ctx context.Context, root *scrub.Root) {
	_ = root.Close()
	if ctx.Err() != nil {
		w.lingers = func() { _ = root.Check(context.Background(), scrub.Options{}) } // waits for its turn
	}
}
