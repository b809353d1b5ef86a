// Package unmounting has the parts of util.UnmountMountPoint that package podvolume needs
// before it starts a goroutine.
package unmounting

import (
	"context"
	"reflect"

	"github.com/volumekit/volumekit/mount"
)

// Options are those of util.UnmountMountPoint.
type Options struct {
	Keep, EndLater, File, Isolate bool
	Undone                        bool // an earlier call has unmounted a mount
	Inside                        func(mount.Info) bool
}

// Remove unmounts and removes a directory in one step, with a
// [mount.DirectoryMounter]; with another mounter it does nothing.
func Remove(ctx context.Context, mounter mount.Interface, path string, wait mount.Patience) (undone, removed bool) {
	m, ok := mount.As[mount.DirectoryMounter](mounter)
	if !ok || ctx.Err() != nil {
		return false, false
	}
	return m.UnmountRemove(ctx, path, wait)
}

// IsNil reports whether an interface is nil or holds a nil pointer.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}
