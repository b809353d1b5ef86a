package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// buildStaged makes the mount with mount(2) in a private directory, where it may
// lack its flags for a moment, and moves it to the target when it is complete.
func (m *Mounter) buildStaged(dir bool, src *source, req Request, o Options) (*tree, error) {
	if !req.IDMap.empty() {
		return nil, fmt.Errorf("an ID map takes mount_setattr: %w", errors.ErrUnsupported)
	}
	area, err := openStage(m.config.StagingDir)
	if err != nil {
		return nil, fmt.Errorf("staging: %w", err)
	}
	place := filepath.Join(area.dir, "mount")
	fd, err := stage(place, dir, src, req, o)
	if err != nil {
		area.release()
		return nil, err
	}
	return &tree{
		fd: fd,
		attach: func(target int) error {
			return withoutProc(unix.Mount(place, procFD(target), "", unix.MS_MOVE, ""))
		},
		release: func() {
			closeFD(fd)
			area.release()
		},
	}, nil
}

// stage mounts at place, which it makes, and returns the root of the mount.
func stage(place string, dir bool, src *source, req Request, o Options) (int, error) {
	if err := makeNode(place, dir); err != nil {
		return -1, err
	}
	var err error
	if src != nil {
		err = stageBind(place, src, req, o)
	} else {
		err = stageFileSystem(place, req, o)
	}
	if err == nil {
		err = stagePropagation(place, req)
	}
	if err != nil {
		return -1, err
	}
	return unix.Open(place, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

func makeNode(place string, dir bool) error {
	if dir {
		return os.Mkdir(place, 0o700)
	}
	return os.WriteFile(place, nil, 0o600)
}

// stageBind binds and then remounts, since mount(2) ignores the flags of a bind.
func stageBind(place string, src *source, req Request, o Options) error {
	before, err := statusOf(src.fd)
	if err != nil {
		return err
	}
	recursive := uintptr(0)
	if req.Submounts == IncludeSubmounts || src.prove {
		recursive = unix.MS_REC
	}
	if err := unix.Mount(procFD(src.fd), place, "", unix.MS_BIND|recursive, ""); err != nil {
		return withoutProc(err)
	}
	if src.prove {
		recursive = 0 // there is nothing below
		if err := checkAlone(place); err != nil {
			return err
		}
	}
	if err := stageFlags(place, before.flags, o); err != nil {
		return err
	}
	if recursive != 0 {
		return stageSubmounts(place, o)
	}
	return nil
}

func stageFlags(place string, before Flags, o Options) error {
	return unix.Mount("", place, "", unix.MS_REMOUNT|unix.MS_BIND|o.Apply(before).ms(), "")
}

// stageSubmounts gives the mounts below place their flags. One that is hidden under
// another cannot be reached by a path, and must not come to light without them.
func stageSubmounts(place string, o Options) error {
	wanted := map[int]Flags{}
	err := eachBelow(place, func(info Info) error {
		wanted[info.ID] = o.Apply(info.Flags)
		err := stageFlags(info.Mountpoint, info.Flags, o)
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
			return nil // see below
		}
		return err
	})
	if err != nil {
		return err
	}
	return eachBelow(place, func(info Info) error {
		if info.Flags != wanted[info.ID] {
			return fmt.Errorf("a mount below the source is hidden, and takes mount_setattr: %w", errors.ErrUnsupported)
		}
		return nil
	})
}

func eachBelow(place string, do func(Info) error) error {
	table, err := readTable()
	if err != nil {
		return err
	}
	for _, info := range table {
		if rest, ok := below(place, info.Mountpoint); !ok || rest == "" {
			continue
		}
		if err := do(info); err != nil {
			return err
		}
	}
	return nil
}

// stagePropagation comes last: a shared mount cannot be moved out of the area,
// which is private, but a mount that is shared itself can.
func stagePropagation(place string, req Request) error {
	flags := req.Propagation.ms()
	if req.Submounts == IncludeSubmounts {
		flags |= unix.MS_REC
	}
	return unix.Mount("", place, "", flags, "")
}

// stageFileSystem passes the options as text; those that are flags of the file
// system have a bit of their own.
func stageFileSystem(place string, req Request, o Options) error {
	flags := o.Set.ms()
	var data []string
	for _, option := range o.Data {
		if superOptions[option] {
			flags |= superFlags[option]
		} else {
			data = append(data, option)
		}
	}
	for _, secret := range req.Secrets {
		data = append(data, secret.Reveal())
	}
	text := strings.Join(data, ",")
	if len(text) > longestText { // the kernel would take the beginning alone
		return fmt.Errorf("%d bytes of options: %w", len(text), unix.E2BIG)
	}
	err := unix.Mount(req.Source, place, req.FSType, flags, text)
	if errors.Is(err, unix.ENODEV) {
		return fsTypeError(req.FSType, err)
	}
	return err
}

var superFlags = map[string]uintptr{
	"sync":     unix.MS_SYNCHRONOUS,
	"dirsync":  unix.MS_DIRSYNC,
	"lazytime": unix.MS_LAZYTIME,
	"mand":     unix.MS_MANDLOCK,
}
