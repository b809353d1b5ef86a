package dockerserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/cachedir"
	"github.com/volumekit/volumekit/internal/debian"
)

// suite is the Debian release of the programs.
const suite = "bookworm"

// Programs are the paths of the programs.
type Programs struct {
	Dockerd    string
	Docker     string
	Containerd string // its directory also has the shim
	Runc       string
	Busybox    string // one static binary, the only file of the image
	Libraries  string // the directory of a library of dockerd that not each machine has
}

// Find returns the programs in the cache. The error wraps fs.ErrNotExist if one is missing.
func Find() (Programs, error) {
	cache, err := cachedir.Locate("VOLUMEKIT_DOCKER", "docker")
	if err != nil {
		return Programs{}, err
	}
	dir := filepath.Join(cache, suite)
	p := Programs{
		Dockerd:    filepath.Join(dir, "usr/sbin/dockerd"),
		Docker:     filepath.Join(dir, "usr/bin/docker"),
		Containerd: filepath.Join(dir, "usr/bin/containerd"),
		Runc:       filepath.Join(dir, "usr/sbin/runc"),
		Busybox:    filepath.Join(dir, "bin/busybox"),
	}
	for _, program := range []string{p.Dockerd, p.Docker, p.Containerd, p.Runc, p.Busybox} {
		if _, err := os.Stat(program); err != nil {
			return p, fmt.Errorf("the cache of Docker's programs is incomplete: %w", err)
		}
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "lib/*/libdevmapper.so.*"))
	if err != nil || len(libraries) == 0 {
		return p, fmt.Errorf("the cache of Docker's programs has no libdevmapper: %w", errors.Join(err, fs.ErrNotExist))
	}
	p.Libraries = filepath.Dir(libraries[0])
	return p, nil
}

// Fetch adds the programs to the cache if it lacks them.
func Fetch(ctx context.Context, progress io.Writer) (Programs, error) {
	p, err := Find()
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	cache, err := cachedir.Locate("VOLUMEKIT_DOCKER", "docker")
	if err != nil {
		return p, err
	}
	err = cachedir.Add(cache, suite, func(work, dir string) error {
		archive, err := debian.Open(ctx, work, suite)
		if err != nil {
			return err
		}
		return archive.Unpack(ctx, dir, "docker.io", "containerd", "runc", "libdevmapper1.02.1", "busybox-static")
	})
	if err != nil {
		return p, fmt.Errorf("add Docker to the cache: %w", err)
	}
	if _, err := fmt.Fprintln(progress, "Docker added to", cache); err != nil {
		return p, err
	}
	return Find()
}
