//go:build !linux

package fsusage

import (
	"errors"
	"fmt"
	"runtime"
)

func unsupported(what, path string) error {
	return fmt.Errorf("%s %s on %s: requires Linux: %w", what, path, runtime.GOOS, errors.ErrUnsupported)
}

var mountAt = func(string) uint64 { return 0 }

var nodeAt = func(string) uint64 { return 0 }

var blockSize = func(device string) (int64, error) { return 0, unsupported("size of", device) }

type identity struct{}

type tree struct{ identity }

func openTree(dir string) (tree, error) { return tree{}, unsupported("count what is in", dir) }

func (tree) close() {}

type progress struct{ tree Tree }

func newProgress(tree) *progress { return &progress{} }

func (*progress) root() identity { return identity{} }

func (*progress) resume(tree, func() bool) error { return errors.ErrUnsupported }
