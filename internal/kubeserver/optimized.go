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
)

// An optimizedProgram is a program that is built as its users build it: benchmarks compare with it.
type optimizedProgram struct {
	name    string
	dir     string // its directory in the cache, which names the version
	command string // the import path
}

// find returns the path of the program in the cache. The error wraps fs.ErrNotExist if it is missing.
func (p optimizedProgram) find() (string, error) {
	cache, err := cachedir.Locate(cacheVariable, "kube")
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, p.dir, p.name)
	if _, err := os.Stat(path); err != nil {
		return path, fmt.Errorf("the cache has no %s: %w", p.name, err)
	}
	return path, nil
}

// fetch is [Fetch] for the program.
func (p optimizedProgram) fetch(ctx context.Context, source string, progress io.Writer) (string, error) {
	path, err := p.find()
	if !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	c := programCache{filepath.Dir(filepath.Dir(path)), progress}
	err = c.add(path, p.dir, func(_, dir string) error {
		return buildCommand(ctx, source, p.command, filepath.Join(dir, p.name), progress)
	})
	return path, err
}
