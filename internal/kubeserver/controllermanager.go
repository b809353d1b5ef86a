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

const controllerManager = "kube-controller-manager"

// FindControllerManager returns the path of kube-controller-manager in the cache. The error wraps
// fs.ErrNotExist if it is missing.
func FindControllerManager() (string, error) {
	cache, err := cachedir.Locate(cacheVariable, "kube")
	if err != nil {
		return "", err
	}
	program := filepath.Join(cache, "controller-manager-"+Version, controllerManager)
	if _, err := os.Stat(program); err != nil {
		return program, fmt.Errorf("the cache has no %s: %w", controllerManager, err)
	}
	return program, nil
}

// FetchControllerManager is [Fetch] for kube-controller-manager.
func FetchControllerManager(ctx context.Context, source string, progress io.Writer) (string, error) {
	program, err := FindControllerManager()
	if !errors.Is(err, fs.ErrNotExist) {
		return program, err
	}
	c := programCache{filepath.Dir(filepath.Dir(program)), progress}
	err = c.add(program, filepath.Base(filepath.Dir(program)), func(_, dir string) error {
		return buildProgram(ctx, source, filepath.Join(dir, controllerManager), progress)
	})
	return program, err
}
