package nfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// exports are the mounts in the plugin's own directory, one for each export and
// options, which pods have bound. Who uses one is in the mount table, and nowhere
// else: so it is still right after a crash.
type exports struct {
	dir     string
	mounts  *util.PodMounts
	mounter mount.Interface
	swept   atomic.Bool // no export is left that nobody has
}

// setUp mounts the export, unless that is done, and binds it for a pod. Meanwhile
// nobody in this process takes it down; if another one does, it tries again.
func (e *exports) setUp(ctx context.Context, dir, version string, ways []mount.Request) error {
	place := path.Join(e.dir, nameOf(version, ways[0]))
	stale, err := e.isStale(ctx, place)
	if err != nil {
		return err
	}
	return e.mounts.Exclusively(ctx, place, func(place string) error {
		if stale { // or mounted anew by now, which those who have it do not notice
			if err := unmount(ctx, e.mounts, place, util.KeepDirectory()); err != nil {
				return err
			}
		}
		return e.setUpAt(ctx, dir, place, ways)
	})
}

// isStale asks without the lock, since the server may not answer.
func (e *exports) isStale(ctx context.Context, place string) (bool, error) {
	at, ok, err := e.at(ctx, place)
	if err != nil || !ok {
		return false, err
	}
	return isStale(ctx, at)
}

// errTakenDown is that another process has unmounted the export.
var errTakenDown = errors.New("the export is not mounted in the plugin's directory any more")

func (e *exports) setUpAt(ctx context.Context, dir, place string, ways []mount.Request) error {
	const tries = 4
	var err error
	for range tries {
		if err = e.mount(ctx, place, ways); err == nil {
			err = e.bind(ctx, dir, place, ways[0])
		}
		if !errors.Is(err, errTakenDown) {
			break
		}
	}
	if err == nil || volume.KindOf(err) == volume.Uncertain {
		return err
	}
	if e.takeDown(ctx, place) != nil {
		e.swept.Store(false) // there is no time left, for one: it is found there
	}
	return err
}

// mount mounts the export, unless it is: what is at the place is that by its name.
func (e *exports) mount(ctx context.Context, place string, ways []mount.Request) error {
	if _, ok, err := e.at(ctx, place); ok || err != nil {
		return err
	}
	return inTurn(ways, func(req mount.Request) error { return e.mounts.Mount(ctx, place, forAll(req)) })
}

// bind mounts the export for a pod and looks whether that is what it got.
func (e *exports) bind(ctx context.Context, dir, place string, req mount.Request) error {
	if err := e.mounts.Mount(ctx, dir, bind(place, req)); err != nil {
		return err
	}
	_, ok, err := e.at(ctx, dir)
	if err != nil { // it is up, perhaps of nothing
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	}
	if ok {
		return nil
	}
	if err := e.mounts.Unmount(ctx, dir); err != nil {
		return fmt.Errorf("%w: %w: %w", volume.ErrUncertain, errTakenDown, err)
	}
	return util.Transient(errTakenDown)
}

// at returns the mount of NFS that is at a path, if there is one.
func (e *exports) at(ctx context.Context, p string) (at mount.Info, ok bool, err error) {
	if mounted, err := e.mounter.IsMountPoint(ctx, p); err == nil && !mounted || errors.Is(err, fs.ErrNotExist) {
		return at, false, nil
	}
	place, err := e.mounter.Resolve(ctx, p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return at, false, nil
	case err != nil:
		return at, false, util.Transient(err)
	}
	return place.Mount, place.Mount.Mountpoint == p && isNFS(place.Mount), nil
}

// refuse refuses a volume in the plugin's own directory.
func (e *exports) refuse(dir string) error {
	if clean := path.Clean(dir); clean == e.dir || strings.HasPrefix(clean, e.dir+"/") {
		return volume.Invalid(field.NewPath("dir"), dir, "the plugin's own mounts are there")
	}
	return nil
}

// forAll is the mount of the export itself: what is a flag of a mount each pod has
// for itself.
func forAll(req mount.Request) mount.Request {
	_, req.Options = split(req.Options)
	return req
}

// bind is the mount for a pod.
func bind(place string, req mount.Request) mount.Request {
	flags, _ := split(req.Options)
	return mount.Request{Source: place, Options: flags, Submounts: mount.HideSubmounts}
}

// split parts the flags of a mount from the options of the file system.
func split(options []string) (flags, data []string) {
	for _, option := range options {
		parsed, err := mount.ParseOptions([]string{option}, mount.Allow{SUID: true, Dev: true})
		if err == nil && len(parsed.Data) == 0 {
			flags = append(flags, option)
		} else {
			data = append(data, option)
		}
	}
	return flags, data
}

// nameOf names the directory for an export by all that distinguishes it. The version
// is the one that is asked for, which the requests need not say.
func nameOf(version string, req mount.Request) string {
	_, data := split(req.Options)
	slices.Sort(data)
	sum := sha256.Sum256([]byte(req.Source + "\x00" + version + "\x00" + strings.Join(slices.Compact(data), ",")))
	return hex.EncodeToString(sum[:16])
}

// tearDown takes a pod's volume down, and the export if it was the last.
func (e *exports) tearDown(ctx context.Context, dir string) error {
	places, err := e.placesOf(ctx, dir)
	if err != nil {
		return err
	}
	if err := unmount(ctx, e.mounts, dir); err != nil {
		return err
	}
	if len(places) == 0 {
		e.swept.Store(false) // what was below another mount, or is gone already, had one
	}
	for _, place := range places {
		err := e.release(ctx, place)
		if err != nil {
			e.swept.Store(false)
		}
		if err != nil && ctx.Err() == nil { // else the pod's volume is down, at least
			return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
		}
	}
	return nil
}

// placesOf returns where the export that a pod has bound is mounted.
func (e *exports) placesOf(ctx context.Context, dir string) ([]string, error) {
	refs, err := e.mounter.MountRefs(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, util.Transient(err)
	}
	return slices.DeleteFunc(refs, func(at string) bool { return path.Dir(at) != e.dir }), nil
}

func (e *exports) release(ctx context.Context, place string) error {
	return e.mounts.Exclusively(ctx, place, func(place string) error { return e.takeDown(ctx, place) })
}

// sweepFor is how long a call waits for exports that it is not about.
const sweepFor = time.Second

// sweep takes down every export that no pod has: a process that was killed may have
// left one. What cannot be taken down now is left for later.
func (e *exports) sweep(ctx context.Context) {
	if !e.swept.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepFor)
	defer cancel()
	entries, err := os.ReadDir(e.dir)
	done := err == nil || errors.Is(err, fs.ErrNotExist)
	for _, entry := range entries {
		err := e.mounts.IfIdle(path.Join(e.dir, entry.Name()), func(place string) error { return e.takeDown(ctx, place) })
		done = err == nil && done
	}
	if !done { // and if it is, somebody may have left another meanwhile
		e.swept.Store(false)
	}
}

// takeDown unmounts an export unless somebody has it bound.
func (e *exports) takeDown(ctx context.Context, place string) error {
	if err := e.mounts.CheckMounted(ctx, place); err == nil {
		used, err := e.isUsed(ctx, place)
		if used || err != nil {
			return err
		}
	} else if !errors.Is(err, volume.ErrNotMounted) {
		return err
	}
	return unmount(ctx, e.mounts, place)
}

// isUsed reports whether the export is mounted anywhere but in the plugin's own
// directory: exports with like options share one file system.
func (e *exports) isUsed(ctx context.Context, place string) (bool, error) {
	refs, err := e.mounter.MountRefs(ctx, place)
	if err != nil {
		return false, util.Transient(err)
	}
	return slices.ContainsFunc(refs, func(at string) bool { return path.Dir(at) != e.dir }), nil
}
