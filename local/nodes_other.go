//go:build !linux

package local

import (
	"errors"
	"fmt"
	"os"
)

// kernelNodes fails: block devices are supported on Linux alone.
type kernelNodes struct{}

var errNotHere = fmt.Errorf("block devices: requires Linux: %w", errors.ErrUnsupported)

func (kernelNodes) kind(name string) (kind, error) {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return kindOther, err
	case info.IsDir():
		return kindDirectory, nil
	case info.Mode()&os.ModeSymlink != 0:
		return kindLink, nil
	}
	return kindOther, nil
}

func (kernelNodes) readLink(string) (string, error) { return "", errNotHere }

func ownersOf(string) (owners, error) { return owners{}, errNotHere }
