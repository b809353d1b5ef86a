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
			return unix.Mount(place, procFD(target), "", unix.MS_MOVE, "")
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
		err = stageBind(place, src, o)
	} else {
		err = stageFileSystem(place, req, o)
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
func stageBind(place string, src *source, o Options) error {
	before, err := statusOf(src.fd)
	if err != nil {
		return err
	}
	if err := unix.Mount(procFD(src.fd), place, "", unix.MS_BIND, ""); err != nil {
		return err
	}
	if err := unix.Mount("", place, "", unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("", place, "", unix.MS_REMOUNT|unix.MS_BIND|o.Apply(before.flags).ms(), "")
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
	err := unix.Mount(req.Source, place, req.FSType, flags, strings.Join(data, ","))
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
