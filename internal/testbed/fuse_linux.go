package testbed

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/fuseserver"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// FUSEProgram is the name of [ServeFUSE] in the programs of a package's TestMain.
const FUSEProgram = "fuse"

// A FUSE is a file system in the memory of another process, which can hang.
type FUSE struct{ *fuseserver.Process }

// What a FUSE does besides serving its files.
const (
	Cold     = "cold"     // it lets the kernel cache no names: each lookup is a request
	Warm     = "warm"     // it lets the kernel cache the names that were looked up before
	Ignoring = "ignoring" // it reports changes of owner as done, and makes none
)

// MountFUSE mounts a FUSE at dir until the test ends. It requires root of the machine.
func MountFUSE(t testing.TB, dir, habit string) *FUSE {
	t.Helper()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())
	require.NoError(t, unix.Mount("hung", dir, "fuse.hung", 0, options))
	process, err := fuseserver.Start(mounttest.Program(FUSEProgram, habit), dev)
	require.NoError(t, err)
	f := &FUSE{process}
	require.NoError(t, dev.Close())
	t.Cleanup(func() {
		f.Die() // waiting callers get an error
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return f
}
