package kubeserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/volumekit/volumekit/internal/cachedir"
	"github.com/volumekit/volumekit/internal/debian"
)

const (
	// Version is the version of Kubernetes that the go.mod in the directory build requires.
	Version = "v1.37.1"
	// cacheVariable is the environment variable that names the directory of the cache.
	cacheVariable = "VOLUMEKIT_KUBE"
	// etcdSuite is the Debian release that etcd comes from: of etcd 3.4, in the release before,
	// API servers stream no lists. It runs with the C library of that release, too.
	etcdSuite = "trixie"
	// etcdName is the name of etcd's directory in the cache.
	etcdName = "etcd-" + etcdSuite
)

// Programs holds the paths of kube-apiserver and etcd.
type Programs struct {
	APIServer string
	Etcd      string
}

// Find returns the programs in the cache. The error wraps fs.ErrNotExist if one is missing.
func Find() (Programs, error) {
	cache, err := cachedir.Locate(cacheVariable, "kube")
	if err != nil {
		return Programs{}, err
	}
	p := Programs{
		APIServer: filepath.Join(cache, Version, "kube-apiserver"),
		Etcd:      filepath.Join(cache, etcdName, "usr", "bin", "etcd"),
	}
	for _, program := range []string{p.APIServer, p.Etcd} {
		if _, err := os.Stat(program); err != nil {
			return p, fmt.Errorf("the cache of Kubernetes' programs, %s, is incomplete: %w", cache, err)
		}
	}
	return p, nil
}

// checkDirectories returns an error for a directory in the cache that is not empty and lacks its
// program. [cachedir.Add] never creates such a directory, and does not replace it.
func (p Programs) checkDirectories(cache string) error {
	for program, name := range map[string]string{p.APIServer: Version, p.Etcd: etcdName} {
		dir := filepath.Join(cache, name)
		if _, err := os.Stat(program); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return fmt.Errorf("%s lacks %s: remove the directory and try again", dir, filepath.Base(program))
		}
	}
	return nil
}

// Fetch returns the programs and first downloads etcd and builds kube-apiserver if the cache
// lacks them. It needs Debian's package tools and the go command. source is the path of this
// package's directory build. Fetch writes the output of the build, and the duration of each step,
// to progress. When ctx ends, Fetch fails and leaves nothing incomplete in the cache. Fetch fails at
// once for a directory in the cache that is not empty and lacks its program.
func Fetch(ctx context.Context, source string, progress io.Writer) (Programs, error) {
	p, err := Find()
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	cache, err := cachedir.Locate(cacheVariable, "kube")
	if err != nil {
		return p, err
	}
	if err := p.checkDirectories(cache); err != nil {
		return p, err
	}
	c := programCache{cache, progress}
	err = c.add(p.Etcd, etcdName, func(work, dir string) error {
		archive, err := debian.Open(ctx, work, etcdSuite)
		if err != nil {
			return err
		}
		return archive.Unpack(ctx, dir, "etcd-server")
	})
	if err != nil {
		return p, err
	}
	err = c.add(p.APIServer, Version, func(_, dir string) error {
		return buildProgram(ctx, source, dir+"/kube-apiserver", progress)
	})
	if err != nil {
		return p, err
	}
	return Find()
}

// A programCache is the directory of the cache while programs are added.
type programCache struct {
	dir      string
	progress io.Writer
}

// add builds the directory name in the cache unless the program in it exists, and reports the
// duration.
func (c programCache) add(program, name string, build func(work, dir string) error) error {
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	start := time.Now()
	if err := cachedir.Add(c.dir, name, build); err != nil {
		return fmt.Errorf("add %s to the cache: %w", name, err)
	}
	_, err := fmt.Fprintf(c.progress, "%s added in %.0f s\n", filepath.Base(program), time.Since(start).Seconds())
	return err
}

// buildProgram builds a program of Kubernetes, named as its command, without optimization and debugging
// information. Tests need neither, and a build with a cold build cache, the usual case, is faster.
func buildProgram(ctx context.Context, source, program string, progress io.Writer) error {
	return buildCommand(ctx, source, "k8s.io/kubernetes/cmd/"+filepath.Base(program), program, progress, "-gcflags=all=-N -l -dwarf=false")
}

// buildCommand builds a command of a module that the one in source requires.
func buildCommand(ctx context.Context, source, command, program string, progress io.Writer, flags ...string) error {
	args := append([]string{"build", "-trimpath", "-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + Version}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", program, command)...)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-mod=readonly")
	cmd.Stdout, cmd.Stderr = progress, progress
	return cmd.Run()
}
