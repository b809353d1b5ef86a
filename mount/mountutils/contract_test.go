package mountutils_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
)

// notInPeer is what the interface of mount-utils has no words for.
var notInPeer = map[string]string{
	"Deleted":              "the table does not say what was removed",
	"DeletedFile":          "the table does not say what was removed",
	"PartOfFileSystem":     "the table does not say which part is mounted",
	"StrangeNames":         "the table does not say which part is mounted",
	"IDMap":                "mount(8) had no ID maps",
	"SourceFile":           "mount(8) takes paths",
	"SourceFileIsResolved": "mount(8) takes paths",
	"BadSourceFile":        "mount(8) takes paths",

	"Propagation":             "the table does not say how mounts spread",
	"PropagationOfSubmounts":  "the table does not say how mounts spread",
	"PropagationOfFileSystem": "the table does not say how mounts spread",
	"Remount":                 "the table does not tell the mount's options from the file system's",
	"UnmountTreeOfStack":      "the table does not say what is mounted in what",
	"TreesBesideNeighbours":   "the table does not say what is mounted in what",
}

// notOnFake are tests that write through mounts, which those of a Fake behind two
// adapters do not show.
var notOnFake = map[string]string{
	"Bind": "", "BindFile": "", "Flags": "", "Refs": "", "ReadOnly": "", "FlagsAreInherited": "", "Stack": "", "UnmountBusy": "",
	"SubmountsRefused": "", "SubmountsHidden": "", "SubmountsIncluded": "", "SubmountsReadOnlyAtOnce": "",
	"SubmountsUnderOthers": "",
	"RemountOneMount":      "", "UnmountTree": "", "UnmountTreeBusy": "", "ErrorClasses": "",
	"Isolate": "",
	"Resolve": "", "ResolveLinks": "", "ResolveStack": "",
}

// TestContract: a mounter is what it was after having been lent to mount-utils
// and taken back.
func TestContract(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	except := exceptions(notInPeer)
	if isOnTmpfs(t, t.TempDir()) { // of which every tmpfs then looks like a part
		except = append(except, mounttest.Except("SomethingElseMounted", notInPeer["PartOfFileSystem"]))
	}
	mounttest.TestInterface(t, func(t *testing.T, config mount.Config) mount.Interface {
		config.StagingDir = filepath.Join(t.TempDir(), "staging")
		return thereAndBack(mount.New(config), config)
	}, except...)
}

func TestContractFake(t *testing.T) {
	mounttest.TestInterface(t, func(_ *testing.T, config mount.Config) mount.Interface {
		return thereAndBack(mounttest.NewFake(config), config)
	}, append(exceptions(notInPeer), exceptions(notOnFake)...)...)
}

func thereAndBack(m mount.Interface, config mount.Config) mount.Interface {
	return mountutils.From(mountutils.New(m, mountutils.WithStacking()), mountutils.WithAllow(config.Allow))
}

func exceptions(reasons map[string]string) (options []mounttest.TestOption) {
	for name, reason := range reasons {
		options = append(options, mounttest.Except(name, reason))
	}
	return options
}

func isOnTmpfs(t *testing.T, dir string) bool {
	t.Helper()
	place, err := mount.New(mount.Config{}).Resolve(t.Context(), dir)
	require.NoError(t, err)
	return place.Mount.FSType == "tmpfs"
}
