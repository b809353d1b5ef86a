package mountutils_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
)

// notInPeer lists the contract tests that need facts or features missing in the interface of
// mount-utils, each with the reason.
var notInPeer = map[string]string{
	"Deleted":              "the table does not mark removed sources",
	"DeletedFile":          "the table does not mark removed sources",
	"PartOfFileSystem":     "the table does not report roots",
	"StrangeNames":         "the table does not report roots",
	"IDMap":                "mount-utils has no ID maps",
	"SourceFile":           "mount-utils accepts paths only",
	"SourceFileIsResolved": "mount-utils accepts paths only",
	"BadSourceFile":        "mount-utils accepts paths only",

	"Propagation":             "the table does not report propagation",
	"PropagationOfSubmounts":  "the table does not report propagation",
	"PropagationOfFileSystem": "the table does not report propagation",
	"Remount":                 "the table does not separate options of the mount from those of the file system",
	"RemountReadOnly":         "remount,bind makes the mount writable, and the file system stays read-only",
	"UnmountTreeOfStack":      "the table does not report parents",
	"TreesBesideNeighbours":   "the table does not report parents",
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

// TestContract: a mounter that was converted to the interface of mount-utils and back still
// fulfills the contract, except for the tests in notInPeer.
func TestContract(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	except := exceptions(notInPeer)
	if isOnTmpfs(t, t.TempDir()) { // the table shows no difference between this tmpfs and others
		except = append(except, mounttest.Except("SomethingElseMounted", notInPeer["PartOfFileSystem"]))
	}
	mounttest.TestInterface(t, func(t *testing.T, config mount.Config) mount.Interface {
		config.StagingDir = filepath.Join(t.TempDir(), "staging")
		return convertTwice(mount.New(config), config)
	}, except...)
}

func TestContractFake(t *testing.T) {
	mounttest.TestInterface(t, func(_ *testing.T, config mount.Config) mount.Interface {
		return convertTwice(mounttest.NewFake(config), config)
	}, append(exceptions(notInPeer), exceptions(notOnFake)...)...)
}

func convertTwice(m mount.Interface, config mount.Config) mount.Interface {
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
