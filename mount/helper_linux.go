package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// buildFileSystem makes a file system with the program for its type, or with the
// kernel's calls alone. Nothing is mounted where anyone sees it.
func (m *Mounter) buildFileSystem(ctx context.Context, req Request, o Options) (*tree, error) {
	helper, err := m.findHelper(req)
	switch {
	case err != nil:
		return nil, err
	case helper != "":
		return m.buildHelped(ctx, helper, req, o)
	case isNFS(req.FSType):
		return m.buildNFS(ctx, req, o)
	}
	return m.build(true, nil, req, o)
}

// findHelper returns the path of the program for a type, or nothing if none is
// needed. Types that are no network's have one only where the configuration or the
// request says.
func (m *Mounter) findHelper(req Request) (string, error) {
	if req.Helper == HelperNever {
		return "", nil
	}
	dirs := m.config.Helpers
	if dirs == nil && (isNetwork(req.FSType) || req.Helper == HelperAlways) {
		dirs = helperDirs
	}
	name := "mount." + req.FSType
	for i, dir := range dirs {
		if !filepath.IsAbs(dir) {
			return "", inputError(fmt.Sprintf("Config.Helpers[%d]", i), dir, "the path must be absolute")
		}
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	if req.Helper == HelperAlways || isNetwork(req.FSType) && !networkTypes[req.FSType].kernelCan {
		return "", &HelperError{Helper: name, Err: fmt.Errorf("%w: %w", exec.ErrNotFound, errors.ErrUnsupported)}
	}
	return "", nil
}

// buildHelped has a program mount in a private place, and takes what it mounted
// away from there: a clone that nobody sees gets its flags, or on old kernels the
// mount itself, before it is moved. A program that is late mounts in a place that
// is gone.
func (m *Mounter) buildHelped(ctx context.Context, helper string, req Request, o Options) (*tree, error) {
	if strings.HasPrefix(req.Source, "-") {
		return nil, inputError("Source", req.Source, "a program would take it for an option")
	}
	tier, err := m.tier()
	if err != nil {
		return nil, err
	}
	area, err := openStage(m.config.StagingDir)
	if err != nil {
		return nil, fmt.Errorf("staging: %w", err)
	}
	place := filepath.Join(area.dir, "mount")
	fd, err := m.helpAt(ctx, area, place, helper, req, o)
	if err != nil {
		area.release()
		return nil, err
	}
	built, err := m.takeOver(tier, area, place, fd, req, o)
	if err != nil {
		closeFD(fd)
		area.release()
		return nil, err
	}
	return built, nil
}

// helpAt runs the program and returns the root of what it has mounted.
func (m *Mounter) helpAt(ctx context.Context, area *stageArea, place, helper string, req Request, o Options) (int, error) {
	if err := makeNode(place, true); err != nil {
		return -1, err
	}
	run, err := newHelperRun(helper, place, req, o)
	if err != nil {
		return -1, err
	}
	defer run.close()
	if err := run.run(ctx, area.abandon); err != nil {
		return -1, err
	}
	fd, err := unix.Open(place, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := checkHelped(fd, place, req); err != nil {
		closeFD(fd)
		return -1, &HelperError{Helper: helper, Output: run.output(req), Err: err}
	}
	return fd, nil
}

// checkHelped makes sure that a program that was content has mounted what it was
// told to.
func checkHelped(fd int, place string, req Request) error {
	is, err := isMountPoint(place)
	if err != nil {
		return err
	}
	if !is {
		return fmt.Errorf("%w: nothing is mounted", ErrNotAsRequested)
	}
	info, err := tableEntry(fd)
	if err != nil {
		return err
	}
	if !isMountOf(info, req) {
		return fmt.Errorf("%w: it is %s from %s", ErrNotAsRequested, quote(info.FSType), quote(info.Source))
	}
	return nil
}

// takeOver makes a tree of what is mounted at the place. It has the flags that
// were asked for and no others, whatever the program did.
func (m *Mounter) takeOver(tier Tier, area *stageArea, place string, fd int, req Request, o Options) (*tree, error) {
	exactly := Options{Set: o.Set, Clear: allFlags &^ o.Set}
	if o.Set&atime == 0 {
		exactly.Clear |= atime
	}
	if tier == TierClassic {
		return takeOverStaged(area, place, fd, req, exactly)
	}
	clone, err := cloneTree(tier, fd, req, exactly)
	if m.config.Tier == TierAuto && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS)) {
		return takeOverStaged(area, place, fd, req, exactly)
	}
	if err != nil {
		return nil, err
	}
	if err := mapIDs(clone, req); err != nil {
		closeFD(clone)
		return nil, err
	}
	closeFD(fd)
	area.release()
	return detachedTree(clone), nil
}

func takeOverStaged(area *stageArea, place string, fd int, req Request, o Options) (*tree, error) {
	if !req.IDMap.empty() {
		return nil, fmt.Errorf("an ID map takes mount_setattr: %w", errors.ErrUnsupported)
	}
	if err := stagePropagation(place, req); err != nil {
		return nil, err
	}
	if err := unix.Mount("", place, "", unix.MS_REMOUNT|unix.MS_BIND|o.Set.ms(), ""); err != nil {
		return nil, err
	}
	return &tree{
		fd:     fd,
		attach: func(target int) error { return unix.Mount(place, procFD(target), "", unix.MS_MOVE, "") },
		release: func() {
			closeFD(fd)
			area.release()
		},
	}, nil
}

// allFlags are all that a mount can have.
const allFlags = ReadOnly | NoSUID | NoDev | NoExec | NoSymFollow | NoDirAtime | NoAtime | StrictAtime

// abandon takes the place away from a program that is not done yet: what it mounts
// from now on is in a tree of mounts that is not there any more, which the kernel
// refuses.
func (a *stageArea) abandon() { clearStage(a.dir) }
