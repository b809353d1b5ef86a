//go:build !linux

package hostfile

import (
	"errors"
	"io/fs"
)

// Other systems have no volumes of CSI drivers.

func (f Files) unsupported(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: errors.ErrUnsupported}
}

// Read fails.
func (f Files) Read(name string, _ int64) ([]byte, error) { return nil, f.unsupported("read", name) }

// Write fails.
func (f Files) Write(name string, _ []byte) error { return f.unsupported("write", name) }

// WriteDurably fails.
func (f Files) WriteDurably(name string, _ []byte, _ string) error {
	return f.unsupported("write", name)
}

// SyncName fails.
func (f Files) SyncName(name string) error { return f.unsupported("sync", name) }

// Overwrite fails.
func (f Files) Overwrite(name string, _, _ []byte) (bool, error) {
	return false, f.unsupported("write", name)
}

// An Open is an open file.
type Open struct{}

// OpenFile fails.
func (f Files) OpenFile(name string, _ int64) (*Open, error) { return nil, f.unsupported("open", name) }

// Text returns nil.
func (*Open) Text() []byte { return nil }

// Overwrite fails.
func (*Open) Overwrite([]byte) (bool, error) { return false, errors.ErrUnsupported }

// Close fails.
func (*Open) Close() error { return errors.ErrUnsupported }

// RemoveWithDir fails.
func (f Files) RemoveWithDir(name, _ string) error { return f.unsupported("remove", name) }

// Remove fails.
func (f Files) Remove(name string) error { return f.unsupported("remove", name) }

// RemoveOne fails.
func (f Files) RemoveOne(name string) error { return f.unsupported("remove", name) }

// ReadLink fails.
func (f Files) ReadLink(name string) (string, error) { return "", f.unsupported("readlink", name) }

// MakeLink fails.
func (f Files) MakeLink(_, name string) error { return f.unsupported("symlink", name) }

// RemoveLink fails.
func (f Files) RemoveLink(name string) error { return f.unsupported("remove", name) }
