package kubeserver

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

const (
	// runtimeSuite is the Debian release that the container runtime comes from.
	runtimeSuite = "bookworm"
	// runtimeName is the name of its directory in the cache.
	runtimeName = "runtime-" + runtimeSuite
)

// NodePrograms holds the paths of the programs of a node.
type NodePrograms struct {
	Kubelet    string
	Containerd string // its directory also has the shim
	Ctr        string
	Runc       string
	Busybox    string // one static binary, the only file of the container images
}

// FindNode returns the programs of a node in the cache. The error wraps fs.ErrNotExist if one is
// missing.
func FindNode() (NodePrograms, error) {
	cache, err := cachedir.Locate(cacheVariable, "kube")
	if err != nil {
		return NodePrograms{}, err
	}
	runtime := filepath.Join(cache, runtimeName)
	p := NodePrograms{
		Kubelet:    filepath.Join(cache, "kubelet-"+Version, "kubelet"),
		Containerd: filepath.Join(runtime, "usr", "bin", "containerd"),
		Ctr:        filepath.Join(runtime, "usr", "bin", "ctr"),
		Runc:       filepath.Join(runtime, "usr", "sbin", "runc"),
		Busybox:    filepath.Join(runtime, "bin", "busybox"),
	}
	for _, program := range []string{p.Kubelet, p.Containerd, p.Ctr, p.Runc, p.Busybox} {
		if _, err := os.Stat(program); err != nil {
			return p, fmt.Errorf("the cache of a node's programs is incomplete: %w", err)
		}
	}
	return p, nil
}

// FetchNode is [Fetch] for the programs of a node: it builds the kubelet and downloads containerd,
// runc and busybox from Debian.
func FetchNode(ctx context.Context, source string, progress io.Writer) (NodePrograms, error) {
	p, err := FindNode()
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	cache, err := cachedir.Locate(cacheVariable, "kube")
	if err != nil {
		return p, err
	}
	c := programCache{cache, progress}
	err = c.add(p.Containerd, runtimeName, func(work, dir string) error {
		archive, err := debian.Open(ctx, work, runtimeSuite)
		if err != nil {
			return err
		}
		return archive.Unpack(ctx, dir, "containerd", "runc", "busybox-static")
	})
	if err != nil {
		return p, err
	}
	err = c.add(p.Kubelet, "kubelet-"+Version, func(_, dir string) error {
		return buildProgram(ctx, source, filepath.Join(dir, "kubelet"), progress)
	})
	if err != nil {
		return p, err
	}
	return FindNode()
}
