//go:build !linux

package mount

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/volumekit/volumekit/mount/internal/spec"
)

var errOnlyLinux = fmt.Errorf("requires Linux, not %s: %w", runtime.GOOS, errors.ErrUnsupported)

func (m *Mounter) mount(context.Context, *spec.Spec) error                     { return errOnlyLinux }
func (m *Mounter) watch(context.Context, func()) error                         { return errOnlyLinux }
func (m *Mounter) watchMounts(context.Context, func(TableChange)) error        { return errOnlyLinux }
func missingPrivilege(error) string                                            { return "" }
func (m *Mounter) sweepStages()                                                {}
func (m *Mounter) unmount(context.Context, string) error                       { return errOnlyLinux }
func (m *Mounter) unmountTree(context.Context, string) error                   { return errOnlyLinux }
func (m *Mounter) isolate(context.Context, string) error                       { return errOnlyLinux }
func (m *Mounter) isMountPoint(context.Context, string) (bool, error)          { return false, errOnlyLinux }
func (m *Mounter) mountID(context.Context, string) (uint64, error)             { return 0, errOnlyLinux }
func (m *Mounter) mountRefs(context.Context, string) ([]string, error)         { return nil, errOnlyLinux }
func (m *Mounter) mountsFrom(context.Context, string) ([]Info, error)          { return nil, errOnlyLinux }
func (m *Mounter) resolve(context.Context, string) (Place, error)              { return Place{}, errOnlyLinux }
func (m *Mounter) followLinks(context.Context, string) (string, error)         { return "", errOnlyLinux }
func (m *Mounter) unmountRemove(context.Context, string, Patience) (_, _ bool) { return false, false }
func (m *Mounter) list(context.Context) ([]Info, error)                        { return nil, errOnlyLinux }

// parts are the parts of a Mounter that only Linux has.
type parts struct{}

func (m *Mounter) connect() {}

func (*parts) close() {}

// Tiers returns the tiers that the running kernel offers: none.
func Tiers() []Tier { return nil }

func (m *Mounter) mountNew(context.Context, *spec.Spec, NewDirectory) (bool, error) {
	return false, nil
}
