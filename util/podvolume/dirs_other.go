//go:build !linux

package podvolume

import (
	"errors"
	"fmt"
	"runtime"
)

var errOnlyLinux = fmt.Errorf("volumes that are directories on %s: requires Linux: %w", runtime.GOOS, errors.ErrUnsupported)

func setOwnerAndMode(string, Dir) error      { return errOnlyLinux }
func readNote(string, int64) ([]byte, error) { return nil, errOnlyLinux }
func writeNote(writtenNote) error            { return errOnlyLinux }
func removeNotes(string, ...string) error    { return errOnlyLinux }
func readMark(string) ([]byte, error)        { return nil, errOnlyLinux }
func setMark(int, string, []byte) bool       { return false }
func removeMark(string) error                { return errOnlyLinux }
func hasKubeletNote(string) (bool, error)    { return false, errOnlyLinux }

type pinned struct{ mount uint64 }

func (v *podDir) makeDir() (string, error) { return "", errOnlyLinux }
func (v *podDir) closeParent()             {}
func (v *podDir) pin() (*pinned, error)    { return nil, errOnlyLinux }
func (p *pinned) rmdir() error             { return errOnlyLinux }
func (p *pinned) removeMark(string) error  { return errOnlyLinux }
func (p *pinned) close()                   {}
