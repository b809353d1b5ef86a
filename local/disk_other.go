//go:build !linux

package local

import (
	"errors"
	"fmt"
	"os"
)

// nodeDevices: block devices are used on Linux alone.
type nodeDevices struct{}

var errNotHere = fmt.Errorf("block devices: %w", errors.ErrUnsupported)

func (nodeDevices) kind(name string) (kind, error) {
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

func (nodeDevices) readLink(string) (string, error) { return "", errNotHere }
func (nodeDevices) open(string) (disk, error)       { return nil, errNotHere }

func (nodeDevices) identify(string) (diskFacts, error) { return diskFacts{}, errNotHere }

func ownersOf(string) (owners, error) { return owners{}, errNotHere }
