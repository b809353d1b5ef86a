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

// LocalConfig configures [NewLocal].
type LocalConfig struct {
	// Host has the directories of this node. Required. Volumes are mounted in the
	// directory of a plugin named [LocalName].
	Host volume.VolumeHost
	// Plugin returns the plugin of a volume: VolumePluginMgr.FindPluginBySpec, or a
	// function that calls it. Required.
	Plugin func(*volume.Spec) (volume.VolumePlugin, error)

	// Keep lists names at the top of a volume that stay, with their content. A directory
	// lost+found always stays.
	Keep []string
	// Workers and PerSecond limit the work on one volume, see [scrub.Options].
	Workers, PerSecond int
}

// LocalName is the name of the plugin directory that [Local] uses on the host.
const LocalName = "volumekit.io/recycler"

// A Local recycles in this process: it mounts the volume outside of any pod, empties it,
// and verifies it through another mount. [NewLocal] returns one.
type Local struct {
	config  LocalConfig
	names   keylock.Map // by name of the volume, which is its directory's; locked first
	storage keylock.Map // by the plugin's name and its name of the volume's storage
	works   works
}

var _ volume.Recycler = (*Local)(nil)

// NewLocal returns a recycler. It validates the configuration and touches no file.
func NewLocal(config LocalConfig) (*Local, error) {
	at := field.NewPath("config")
	switch {
	case config.Host == nil:
		return nil, field.Required(at.Child("host"), "a host is needed")
	case config.Plugin == nil:
		return nil, field.Required(at.Child("plugin"), "a plugin is needed")
	case config.Workers < 0:
		return nil, field.Invalid(at.Child("workers"), config.Workers, "must be at least 0")
	case config.PerSecond < 0:
		return nil, field.Invalid(at.Child("perSecond"), config.PerSecond, "must be at least 0")
	}
	return &Local{config: config}, nil
}

// Recycle implements [volume.Recycler]. It returns nil only if a walk through the volume,
// on a mount made after all files were removed, found nothing but [LocalConfig.Keep].
//
// Files that cannot be removed are a [*scrub.UnremovableError], files found afterwards a
// [*scrub.NotEmptyError]. A read-only volume and a raw block device are refused with an
// error that wraps [volume.ErrNotSupported]. Outside of the volume Recycle changes its own
// directory alone, and leaves nothing there unless the error wraps [volume.ErrUncertain]:
// then the volume may still be mounted there, and the next call unmounts it first.
//
// Receivers in ctx, see package util/progress, get the number of entries removed so far, with a directory below
// that of LocalConfig.Host that has the volume's name. When ctx ends, Recycle returns soon, with an error that wraps the cause of ctx; the next
// call removes the remaining files. Before it returns Recycle unmounts the volume. If that
// takes longer, because a file system does not answer, it continues without the caller,
// and the error wraps [volume.ErrUncertain]; the next call for the volume waits for its end.
func (l *Local) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	work, err := l.work(name, spec)
	if err != nil {
		return fmt.Errorf("recycle: %w", err)
	}
	if err := work.exclusively(ctx, work.run); err != nil {
		return fmt.Errorf("recycle %s: %w", name, err)
	}
	return nil
}

// Wait returns nil when no recycling is in flight, including those whose callers' contexts
// have ended; or, when ctx ends, an error that wraps ctx.Err() and the cause.
func (l *Local) Wait(ctx context.Context) error { return l.works.wait(ctx) }

// exclusively runs do under the volume's locks, and holds the locks until system calls that do
// has left running have ended.
func (w *work) exclusively(ctx context.Context, do func(context.Context) error) error {
	unlock, err := lockBoth(ctx, &w.names, w.name, &w.Local.storage, w.storage)
	if err != nil {
		return fmt.Errorf("wait for another recycling of the volume: %w", util.Transient(err))
	}
	return w.works.inTime(ctx, unlock, func() error {
		err := do(ctx)
		if w.lingers != nil {
			w.lingers()
		}
		return err
	}, func(err error) error { return err })
}

// A work is the recycling of one volume.
type work struct {
	*Local
	plugin  volume.VolumePlugin
	spec    *volume.Spec
	name    string
	storage string
	dir     string // this volume's own
	lingers func() // nil, or waits for system calls left running
}

// work validates the arguments and returns the recycling of the volume. It changes nothing.
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

// purposes names the mounts of a recycling, each in a directory of its own.
var purposes = []string{"scrub", "verify"}

// run unmounts the volume from the directories of a process that was killed, empties it
// through one mount, and verifies it through a second.
func (w *work) run(ctx context.Context) error {
	for _, purpose := range purposes {
		unmounter, err := w.unmounter(purpose)
		if err == nil {
			err = unmounter.TearDownAt(ctx, w.mountPoint(purpose))
		}
		if err != nil {
			return err
		}
	}
	err := w.whileMounted(ctx, purposes[0], func(root *scrub.Root) error {
		_, err := root.Empty(ctx, w.options())
		return err
	})
	if err == nil {
		err = w.whileMounted(ctx, purposes[1], func(root *scrub.Root) error { return root.Check(ctx, w.options()) })
	}
	if left := safepath.Rmdir(context.WithoutCancel(ctx), w.dir); left != nil && !errors.Is(left, fs.ErrNotExist) && err == nil {
		err = util.Transient(left)
	}
	return err
}

// mountPoint returns the mount point for a purpose.
func (w *work) mountPoint(purpose string) string { return path.Join(w.dir, purpose) }

// uid returns the UID of a pod that does not exist.
func uid(purpose string) types.UID { return types.UID("recycler-" + purpose) }

func (w *work) unmounter(purpose string) (volume.Unmounter, error) {
	return w.plugin.NewUnmounter(w.spec.Name(), uid(purpose))
}

func (w *work) options() scrub.Options {
	return scrub.Options{Keep: w.config.Keep, Workers: w.config.Workers, PerSecond: w.config.PerSecond}
}

// whileMounted calls do with the volume mounted.
func (w *work) whileMounted(ctx context.Context, purpose string, do func(*scrub.Root) error) (err error) {
	dir := w.mountPoint(purpose)
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
	return w.withRoot(ctx, dir, do)
}

// pod returns a pod that exists only as an argument of the plugin.
func (w *work) pod(uid types.UID) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "recycler-for-" + w.name, UID: uid}}
}

// unmountWithin limits unmounting after the end of the context.
const unmountWithin = 30 * time.Second

func (w *work) unmount(ctx context.Context, unmounter volume.Unmounter, dir string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unmountWithin)
	defer cancel()
	if err := unmounter.TearDownAt(ctx, dir); err != nil {
		return volume.AsUncertain(err)
	}
	return nil
}

// errNotMounted reports that the directory is no mount point.
var errNotMounted = errors.New("the volume was unmounted during the recycling")

// withRoot opens the root of the volume, verifies that it is mounted, and calls do.
func (w *work) withRoot(ctx context.Context, dir string, do func(*scrub.Root) error) error {
	around, err := scrub.Open(ctx, path.Dir(dir))
	if err != nil {
		return util.Transient(err)
	}
	defer func() { _ = around.Close() }()
	root, err := scrub.Open(ctx, dir)
	if err != nil {
		return util.Transient(err)
	}
	defer w.release(ctx, root)
	if root.Identity().Mount == around.Identity().Mount {
		return util.Transient(errNotMounted)
	}
	return do(root)
}

// release closes the root, or leaves that to a worker that is still in a system call.
func (w *work) release(ctx context.Context, root *scrub.Root) {
	_ = root.Close()
	if ctx.Err() != nil {
		w.lingers = func() { _ = root.Check(context.Background(), scrub.Options{}) } // waits for its turn
	}
}
