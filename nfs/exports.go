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
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// exports are the mounts in the plugin's own directory, one for each export and set of
// options; pods have bind mounts of them. The users of an export are recorded in the
// mount table alone, so the record is right after a crash.
type exports struct {
	dir     string
	mounts  *podvolume.Mounts
	mounter mount.Interface
	swept   atomic.Bool // every export in the directory has a user
	listing keylock.Map // held, for "", by the one call that lists the directory
}

// setUp mounts the export if it is not mounted and binds it for a pod. The lock keeps this
// process from unmounting it meanwhile; if another process does, setUp tries again.
func (e *exports) setUp(ctx context.Context, dir, version string, ways []mount.Request) error {
	place := path.Join(e.dir, nameOf(version, ways[0]))
	stale, err := e.isStale(ctx, place)
	if err != nil {
		return err
	}
	return e.mounts.Exclusively(ctx, place, func(ctx context.Context, place string) error {
		if stale { // or mounted anew meanwhile, which leaves the other pods' bind mounts alone
			if err := unmount(ctx, e.mounts, place, util.KeepDirectory()); err != nil {
				return err
			}
		}
		return e.setUpAt(ctx, dir, place, ways)
	})
}

// isStale queries the server without holding the lock, since the server may not answer.
func (e *exports) isStale(ctx context.Context, place string) (bool, error) {
	at, ok, err := e.mountAt(ctx, place)
	if err != nil || !ok {
		return false, err
	}
	return isStale(ctx, at)
}

// errTakenDown reports that another process has unmounted the export.
var errTakenDown = errors.New("the export was unmounted from the plugin's directory")

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
		e.swept.Store(false) // an export that is left for want of time is found by the next sweep
	}
	return err
}

// mount mounts the export unless its directory is a mount point: the directory's name
// identifies the export.
func (e *exports) mount(ctx context.Context, place string, ways []mount.Request) error {
	if _, ok, err := e.mountAt(ctx, place); ok || err != nil {
		return err
	}
	return mountFirst(ways, func(req mount.Request) error { return e.mounts.Mount(ctx, place, forAll(req)) })
}

// bind mounts the export for a pod and verifies that the pod got this export.
func (e *exports) bind(ctx context.Context, dir, place string, req mount.Request) error {
	if err := e.mounts.Mount(ctx, dir, bind(place, req)); err != nil {
		return err
	}
	_, ok, err := e.mountAt(ctx, dir)
	if err != nil { // it may be mounted without a source
		return volume.AsUncertain(err)
	}
	if ok {
		return nil
	}
	if err := e.mounts.Unmount(ctx, dir); err != nil {
		return volume.AsUncertain(fmt.Errorf("%w: %w", errTakenDown, err))
	}
	return util.Transient(errTakenDown)
}

// mountAt returns the NFS mount at a path, if there is one.
func (e *exports) mountAt(ctx context.Context, p string) (at mount.Info, ok bool, err error) {
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

// refuse refuses a volume whose directory is the plugin's own.
func (e *exports) refuse(dir string) error {
	if clean := path.Clean(dir); clean == e.dir || strings.HasPrefix(clean, e.dir+"/") {
		return volume.Invalid(field.NewPath("dir"), dir, "must be outside the plugin's own directory")
	}
	return nil
}

// forAll returns the request for the mount of the export itself. It has no mount flags:
// each pod's bind mount has its own.
func forAll(req mount.Request) mount.Request {
	_, req.Options = split(req.Options)
	return req
}

// bind returns the request for a pod's bind mount of the export.
func bind(place string, req mount.Request) mount.Request {
	flags, _ := split(req.Options)
	return mount.Request{Source: place, Options: flags, Submounts: mount.HideSubmounts}
}

// split separates the flags of a mount from the options of the file system.
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

// nameOf returns the name of the directory for an export: a hash of everything that
// distinguishes it. The requested version is a parameter since the request may omit it.
func nameOf(version string, req mount.Request) string {
	_, data := split(req.Options)
	slices.Sort(data)
	sum := sha256.Sum256([]byte(req.Source + "\x00" + version + "\x00" + strings.Join(slices.Compact(data), ",")))
	return hex.EncodeToString(sum[:16])
}

// tearDown unmounts a pod's volume, and the export if that pod was its last user.
func (e *exports) tearDown(ctx context.Context, dir string) error {
	places, err := e.placesOf(ctx, dir)
	if err != nil {
		return err
	}
	if err := unmount(ctx, e.mounts, dir); err != nil {
		return err
	}
	if len(places) == 0 {
		e.swept.Store(false) // a volume below another mount, or one that is gone, had an export
	}
	for _, place := range places {
		err := e.release(ctx, place)
		if err != nil {
			e.swept.Store(false)
		}
		if err != nil && ctx.Err() == nil { // after ctx's end the pod's volume at least is unmounted
			return volume.AsUncertain(err)
		}
	}
	return nil
}

// placesOf returns the directories of the export that a pod's volume is a bind mount of.
func (e *exports) placesOf(ctx context.Context, dir string) ([]string, error) {
	refs, err := e.mounter.MountRefs(ctx, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, util.Transient(err)
	}
	return slices.DeleteFunc(refs, func(at string) bool { return path.Dir(at) != e.dir }), nil
}

func (e *exports) release(ctx context.Context, place string) error {
	return e.mounts.Exclusively(ctx, place, func(ctx context.Context, place string) error { return e.takeDown(ctx, place) })
}

// sweepFor limits the time that a call spends on exports of other volumes.
const sweepFor = time.Second

// sweep unmounts every export without a user, such as one of a process that was killed.
// An export that cannot be unmounted now is left for the next sweep.
func (e *exports) sweep(ctx context.Context) {
	if ctx.Err() != nil || !e.swept.CompareAndSwap(false, true) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sweepFor)
	defer cancel()
	list := func() ([]os.DirEntry, error) { return os.ReadDir(e.dir) }
	entries, _, err := keylock.Await(ctx, e.listing.Key(""), ctxend.Kernel, list, nil)
	done := err == nil || errors.Is(err, fs.ErrNotExist)
	for _, entry := range entries {
		err := e.mounts.IfIdle(ctx, path.Join(e.dir, entry.Name()), func(ctx context.Context, place string) error { return e.takeDown(ctx, place) })
		done = err == nil && done
	}
	if !done { // a done sweep counts unless another call has left an export meanwhile
		e.swept.Store(false)
	}
}

// takeDown unmounts an export that has no bind mount.
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
// directory: exports with equal options share one file system.
func (e *exports) isUsed(ctx context.Context, place string) (bool, error) {
	refs, err := e.mounter.MountRefs(ctx, place)
	if err != nil {
		return false, util.Transient(err)
	}
	return slices.ContainsFunc(refs, func(at string) bool { return path.Dir(at) != e.dir }), nil
}
