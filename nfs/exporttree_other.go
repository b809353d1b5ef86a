//go:build !linux

package nfs

import (
	"context"
	"errors"
	"fmt"
)

// An exportTree requires Linux.
type exportTree struct{}

var errNeedsLinux = fmt.Errorf("provision NFS volumes: %w", errors.ErrUnsupported)

func openTree(context.Context, string) (*exportTree, error)        { return nil, errNeedsLinux }
func openMountedTree(context.Context, string) (*exportTree, error) { return nil, errNeedsLinux }

func (t *exportTree) close()                                        {}
func (t *exportTree) size() (int64, error)                          { return 0, errNeedsLinux }
func (t *exportTree) begun(string) (*directory, error)              { return nil, errNeedsLinux }
func (t *exportTree) revert(directory) error                        { return errNeedsLinux }
func (t *exportTree) create(context.Context, directory, bool) error { return errNeedsLinux }
func (t *exportTree) delete(context.Context, string, string) error  { return errNeedsLinux }
func (t *exportTree) name(bool) (string, error)                     { return "", errNeedsLinux }

func (t *exportTree) archive(context.Context, string, string, bool) error { return errNeedsLinux }
