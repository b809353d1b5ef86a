//go:build !linux

package mount

import (
	"context"
	"errors"
	"fmt"
	"runtime"
)

var errOnlyLinux = fmt.Errorf("mounting on %s: %w", runtime.GOOS, errors.ErrUnsupported)

func (m *Mounter) mount(context.Context, *claim, *lease, Request, Options) error { return errOnlyLinux }
func (m *Mounter) isCalm(string) bool                                            { return true }
func (m *Mounter) watch(context.Context, func()) error                           { return errOnlyLinux }
func (m *Mounter) sweepStages()                                                  {}
func (m *Mounter) unmount(context.Context, string, uint64) error                 { return errOnlyLinux }
func (m *Mounter) unmountTree(context.Context, string) error                     { return errOnlyLinux }
func (m *Mounter) isolate(context.Context, string) error                         { return errOnlyLinux }
func (m *Mounter) isMountPoint(context.Context, string) (bool, error)            { return false, errOnlyLinux }
func (m *Mounter) mountID(context.Context, string) (uint64, error)               { return 0, errOnlyLinux }
func (m *Mounter) mountRefs(context.Context, string) ([]string, error)           { return nil, errOnlyLinux }
func (m *Mounter) mountsFrom(context.Context, string) ([]Info, error)            { return nil, errOnlyLinux }
func (m *Mounter) resolve(context.Context, string) (Place, error)                { return Place{}, errOnlyLinux }
func (m *Mounter) followLinks(context.Context, string) (string, error)           { return "", errOnlyLinux }
func readTableIn(context.Context) (Table, error)                                 { return nil, errOnlyLinux }

// cache is what remembers the mount table.
type cache struct{}

func (*cache) close() {}

type anchors struct{}

func (*anchors) dropAll() {}

// leaving is what unmounting remembers.
type leaving struct{}

// Tiers returns the tiers that the running kernel offers: none.
func Tiers() []Tier { return nil }
