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

// notByProgram is what cannot be promised of mounts that mount(8) makes.
var notByProgram = map[string]string{
	"EmptySource":             "mount(8) takes a missing source for one that is in fstab",
	"Flags":                   "mount(8) notes _netdev in a file outside of the namespace",
	"FlagsAreInherited":       "mount(8) does not take back the flags of the source's mount",
	"SubmountsIncluded":       "mount(8) before 2.39 gives its flags to the top of what it binds",
	"SubmountsUnderOthers":    "mount(8) before 2.39 gives its flags to the top of what it binds",
	"SubmountsReadOnlyAtOnce": "mount(8) binds first, and makes that read-only",
	"RefsOfHidden":            "the table does not say which mounts are hidden",
}

// TestContractPeer: the interface to a mounter of mount-utils alone, which runs
// mount(8) and umount(8).
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
	except := append(exceptions(notInPeer), exceptions(notByProgram)...)
	mounttest.TestInterface(t, func(_ *testing.T, config mount.Config) mount.Interface {
		return mountutils.From(peer.New(""), mountutils.WithAllow(config.Allow))
	}, except...)
}
