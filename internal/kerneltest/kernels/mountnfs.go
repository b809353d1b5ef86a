package kernels

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/command"
	"github.com/volumekit/volumekit/internal/debian"
)

// MountNFS is the name of Debian's mount.nfs in the cache and on the command line.
const MountNFS = "mount.nfs"

// mountNFSSuite is its release of Debian.
const mountNFSSuite = "bookworm"

// nfsPackages contain mount.nfs and its libraries.
var nfsPackages = []string{
	"nfs-common", "libc6", "libtirpc3", "libmount1", "libblkid1", "libselinux1", "libpcre2-8-0", "libkeyutils1",
	"libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libcom-err2",
}

// A Program is an unpacked program.
type Program struct {
	// Command runs the program; its arguments follow.
	Command []string
}

// FetchMountNFS is [Fetch] for Debian's mount.nfs.
func FetchMountNFS(ctx context.Context) (Program, error) {
	p, err := FindMountNFS()
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if err := fetch(ctx, MountNFS, unpackMountNFS); err != nil {
		return Program{}, fmt.Errorf("fetch %s: %w", MountNFS, err)
	}
	return FindMountNFS()
}

// FindMountNFS returns mount.nfs from the cache. The error wraps fs.ErrNotExist if it is not
// there.
func FindMountNFS() (Program, error) {
	cache, err := Cache()
	if err != nil {
		return Program{}, err
	}
	return programAt(filepath.Join(cache, MountNFS))
}

func programAt(dir string) (Program, error) {
	program, err := onlyMatch(dir, "sbin/mount.nfs", "usr/sbin/mount.nfs")
	if err != nil {
		return Program{}, fmt.Errorf("%s has to be fetched first: %w", MountNFS, err)
	}
	var libraries []string
	for _, pattern := range []string{"lib/*-linux-gnu", "usr/lib/*-linux-gnu"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return Program{}, err
		}
		libraries = append(libraries, found...)
	}
	return Program{[]string{filepath.Join(dir, loader), "--library-path", strings.Join(libraries, ":"), program}}, nil
}

func unpackMountNFS(ctx context.Context, work, dir, _ string) error {
	a, err := debian.Open(ctx, work, mountNFSSuite)
	if err != nil {
		return err
	}
	if err := a.Unpack(ctx, dir, nfsPackages...); err != nil {
		return err
	}
	if err := linkLoader(dir); err != nil {
		return err
	}
	p, err := programAt(dir)
	if err != nil {
		return err
	}
	// Debian installs it set-user-ID; this copy is for root alone.
	if err := os.Chmod(p.Command[len(p.Command)-1], 0o755); err != nil {
		return err
	}
	return p.try(ctx)
}

// try runs the program to print its version.
func (p Program) try(ctx context.Context) error {
	_, err := command.Output(p.command(ctx, "-V"))
	return err
}
