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
// nobody takes it down.
func (e *exports) setUp(ctx context.Context, dir string, ways []mount.Request, freshen func(context.Context, string) error) error {
	place := path.Join(e.dir, nameOf(ways[0]))
	return e.mounts.Exclusively(ctx, place, func(place string) error {
		if err := freshen(ctx, place); err != nil {
			return err
		}
		err := inTurn(ways, func(req mount.Request) error {
			return e.mounts.Mount(ctx, place, forAll(req))
		})
		if err != nil {
			return err
		}
		err = e.mounts.Mount(ctx, dir, bind(place, ways[0]))
		if err == nil || volume.KindOf(err) == volume.Uncertain {
			return err
		}
		if undo := e.takeDown(ctx, place); undo != nil {
			e.swept.Store(false)
			return fmt.Errorf("%w: %w (cleaning up: %w)", volume.ErrUncertain, err, undo)
		}
		return err
	})
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

// nameOf names the directory for an export by all that distinguishes it.
func nameOf(req mount.Request) string {
	_, data := split(req.Options)
	slices.Sort(data)
	sum := sha256.Sum256([]byte(req.Source + "\x00" + strings.Join(slices.Compact(data), ",")))
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
		if err := e.release(ctx, place); err != nil {
			e.swept.Store(false)
			return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
		}
	}
	return nil
}

// placesOf returns where the export that a pod has bound is mounted.
func (e *exports) placesOf(ctx context.Context, dir string) ([]string, error) {
	mounts, err := e.mountsLike(ctx, dir)
	return slices.DeleteFunc(mounts, func(at string) bool { return path.Dir(at) != e.dir }), err
}

// mountsLike returns where else the export that is mounted at a path is. By device
// and root alone exports would be mixed up that are in one file system of the server:
// to the kernel each is the root of its mount.
func (e *exports) mountsLike(ctx context.Context, at string) ([]string, error) {
	place, err := e.mounter.Resolve(ctx, at)
	if errors.Is(err, fs.ErrNotExist) || err == nil && place.Mount.Mountpoint != at {
		return nil, nil
	}
	var mounts []mount.Info
	if err == nil {
		mounts, err = e.mounter.MountsFrom(ctx, place.Mount.Source)
	}
	if err != nil {
		return nil, util.Transient(err)
	}
	var paths []string
	for _, m := range mounts {
		if m.Major == place.Mount.Major && m.Minor == place.Mount.Minor && m.Root == place.Mount.Root && m.Mountpoint != at {
			paths = append(paths, m.Mountpoint)
		}
	}
	return paths, nil
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
		done = e.release(ctx, path.Join(e.dir, entry.Name())) == nil && done
	}
	e.swept.Store(done)
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
	mounts, err := e.mountsLike(ctx, place)
	return slices.ContainsFunc(mounts, func(at string) bool { return path.Dir(at) != e.dir }), err
}
