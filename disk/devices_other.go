//go:build !linux

package disk

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/util/diskprobe"
)

// kernelDevices: block devices are used on Linux alone.
type kernelDevices struct{}

var errNotLinux = fmt.Errorf("block devices: requires Linux: %w", errors.ErrUnsupported)

func (kernelDevices) Open(string) (Handle, error)   { return nil, errNotLinux }
func (kernelDevices) Identify(string) (Info, error) { return Info{}, errNotLinux }

func isBelowLoop(context.Context, Info, string) (bool, error) { return false, errNotLinux }

func isMountedAnywhere(Info, diskprobe.Found) bool { return false }

func openLocked(*os.File) (*os.File, error) { return nil, errNotLinux }

func mayGrowMounted() bool { return true }

func sizeOfMounted(string, string) (int64, error) { return 0, errNotLinux }
