package mountutils_test

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// notByMountProgram lists the contract tests that mount(8) does not pass, with the reasons.
var notByMountProgram = map[string]string{
	"EmptySource":             "mount(8) searches a missing source in fstab",
	"Flags":                   "mount(8) writes _netdev to a file outside of the namespace",
	"FlagsAreInherited":       "mount(8) does not clear the flags of the source's mount",
	"SubmountsIncluded":       "mount(8) before 2.39 sets flags on the top mount only",
	"SubmountsUnderOthers":    "mount(8) before 2.39 sets flags on the top mount only",
	"SubmountsReadOnlyAtOnce": "mount(8) binds first, and then sets read-only",
	"RefsOfHidden":            "the table does not report hidden mounts",
}

// TestContractPeer: From over the mounter of mount-utils, which runs mount(8) and umount(8),
// fulfills the contract except for the tests in notInPeer and notByMountProgram.
func TestContractPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("the programs are the same on each kernel")
	}
	if !mounttest.Namespace(t) {
		return
	}
	for _, program := range []string{"mount", "umount"} {
		_, err := exec.LookPath(program)
		require.NoError(t, err)
	}
	except := append(exceptions(notInPeer), exceptions(notByMountProgram)...)
	mounttest.TestInterface(t, func(_ *testing.T, config mount.Config) mount.Interface {
		return mountutils.From(peer.New(""), mountutils.WithAllow(config.Allow))
	}, except...)
}
