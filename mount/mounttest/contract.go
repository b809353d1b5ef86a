package mounttest

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// A TestOption changes what [TestInterface] tests.
type TestOption func(*suite)

// A suite is the tests of the contract, by name.
type suite map[string]func(*contract)

// Except skips the test with a name, and gives the reason for which a mounter does
// not keep that promise. A name that no test has fails the whole.
func Except(name, reason string) TestOption {
	return func(tests *suite) {
		excepted := func(c *contract) { c.Fatalf("there is no such test to skip (%s)", reason) }
		if (*tests)[name] != nil {
			excepted = func(c *contract) { c.Skip(reason) }
		}
		(*tests)[name] = excepted
	}
}

// TestInterface is the contract of mount.Interface: each sentence of its
// documentation as a test. NewMounter returns a mounter that knows of no mount
// below a new temporary directory; it is called once for each test.
//
// A mounter that is no [Fake] is taken for a real one: the test writes through
// its mounts. It then has to run where it may mount, see [Namespace]. For one that
// cannot do everything there is [Except].
func TestInterface(t *testing.T, newMounter func(t *testing.T, config mount.Config) mount.Interface, options ...TestOption) {
	tests := suite{
		"Bind":                    (*contract).bind,
		"BindFile":                (*contract).bindFile,
		"SourceFile":              (*contract).sourceFile,
		"SourceFileIsResolved":    (*contract).sourceFileIsResolved,
		"BadSourceFile":           (*contract).badSourceFile,
		"ReadOnly":                (*contract).readOnly,
		"Flags":                   (*contract).flags,
		"FlagsAreInherited":       (*contract).flagsAreInherited,
		"SUIDAndDev":              (*contract).suidAndDev,
		"Tmpfs":                   (*contract).tmpfs,
		"EmptySource":             (*contract).emptySource,
		"Idempotent":              (*contract).idempotent,
		"IdempotentTmpfs":         (*contract).idempotentTmpfs,
		"IdempotentData":          (*contract).idempotentData,
		"SomethingElseMounted":    (*contract).somethingElse,
		"PartOfFileSystem":        (*contract).partOfFileSystem,
		"Stack":                   (*contract).stack,
		"SubmountsRefused":        (*contract).submountsRefused,
		"SubmountsHidden":         (*contract).submountsHidden,
		"SubmountsIncluded":       (*contract).submountsIncluded,
		"SubmountsUnderOthers":    (*contract).submountsUnderOthers,
		"SubmountsReadOnlyAtOnce": (*contract).submountsReadOnlyAtOnce,
		"Propagation":             (*contract).propagation,
		"PropagationOfSubmounts":  (*contract).propagationOfSubmounts,
		"PropagationOfFileSystem": (*contract).propagationOfFileSystem,
		"Isolate":                 (*contract).isolate,
		"IDMap":                   (*contract).idMap,
		"Remount":                 (*contract).remount,
		"RemountOneMount":         (*contract).remountOneMount,
		"RemountNothing":          (*contract).remountNothing,
		"UnmountNothing":          (*contract).unmountNothing,
		"UnmountBusy":             (*contract).unmountBusy,
		"UnmountTree":             (*contract).unmountTree,
		"UnmountTreeOfStack":      (*contract).unmountTreeOfStack,
		"UnmountTreeNothing":      (*contract).unmountTreeNothing,
		"UnmountTreeBusy":         (*contract).unmountTreeBusy,
		"UnmountTreeNoLinks":      (*contract).unmountTreeNoLinks,
		"NoLinks":                 (*contract).noLinks,
		"Missing":                 (*contract).missing,
		"DirectoryOrFile":         (*contract).directoryOrFile,
		"BadInput":                (*contract).badInput,
		"BadInputOfTree":          (*contract).badInputOfTree,
		"BadInputOfIDMap":         (*contract).badInputOfIDMap,
		"BadInputOfRemount":       (*contract).badInputOfRemount,
		"Root":                    (*contract).root,
		"StrangeNames":            (*contract).strangeNames,
		"Refs":                    (*contract).refs,
		"RefsOfHidden":            (*contract).refsOfHidden,
		"Resolve":                 (*contract).resolve,
		"ResolveLinks":            (*contract).resolveLinks,
		"ResolveStack":            (*contract).resolveStack,
		"MountsFrom":              (*contract).mountsFrom,
		"Deleted":                 (*contract).deleted,
		"DeletedFile":             (*contract).deletedFile,
		"ErrorClasses":            (*contract).errorClasses,
		"EndedContext":            (*contract).endedContext,
		"Concurrent":              (*contract).concurrent,
		"QueriesBesideChanges":    (*contract).queriesBesideChanges,
		"TreesBesideNeighbours":   (*contract).treesBesideNeighbours,
	}
	for _, option := range options {
		option(&tests)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test(newContract(t, newMounter))
		})
	}
}

// A contract is one test of the contract.
type contract struct {
	*testing.T
	new  func(config mount.Config) mount.Interface
	m    mount.Interface
	fake *Fake // nil: real mounts
	dir  string
}

func newContract(t *testing.T, newMounter func(*testing.T, mount.Config) mount.Interface) *contract {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &contract{T: t, dir: dir}
	c.new = func(config mount.Config) mount.Interface { return newMounter(t, config) }
	c.m = c.new(mount.Config{})
	c.fake, _ = c.m.(*Fake)
	return c
}

// path returns the path of a name in the test's directory.
func (c *contract) path(name string) string { return filepath.Join(c.dir, name) }

// mkdir makes a directory with one file, named after it, and returns its path.
func (c *contract) mkdir(name string) string {
	c.Helper()
	dir := c.path(name)
	require.NoError(c, os.MkdirAll(dir, 0o755))
	c.Cleanup(func() { c.unmountAll(dir) })
	return dir
}

func (c *contract) unmountAll(target string) {
	for range 8 {
		if is, err := c.m.IsMountPoint(context.Background(), target); err != nil || !is {
			return
		}
		_ = c.m.UnmountTree(context.Background(), target)
	}
}

func (c *contract) mount(req mount.Request) {
	c.Helper()
	require.NoError(c, c.m.Mount(c.Context(), req))
}

func (c *contract) unmount(target string) {
	c.Helper()
	require.NoError(c, c.m.Unmount(c.Context(), target))
}

// at returns the lines of the mount table for a mount point, top last.
func (c *contract) at(target string) []mount.Info {
	c.Helper()
	table, err := c.m.List(c.Context())
	require.NoError(c, err)
	return slices.DeleteFunc(slices.Clone(table), func(i mount.Info) bool { return i.Mountpoint != target })
}

func (c *contract) isMountPoint(target string, want bool) {
	c.Helper()
	is, err := c.m.IsMountPoint(c.Context(), target)
	require.NoError(c, err)
	require.Equal(c, want, is, "is a mount point: %s", target)
	require.Equal(c, want, len(c.at(target)) > 0, "in the table: %s", target)
}

// write writes a file at a path that may be in a mount.
func (c *contract) write(name string) error {
	if c.fake == nil {
		return os.WriteFile(name, []byte("x"), 0o644)
	}
	real, readOnly, err := c.fake.RealPath(name)
	if err == nil && readOnly {
		err = syscall.EROFS
	}
	if err != nil {
		return err
	}
	return os.WriteFile(real, []byte("x"), 0o644)
}

func (c *contract) exists(name string) {
	c.Helper()
	_, err := os.Lstat(name)
	require.NoError(c, err)
}

// table returns the mount table.
func (c *contract) table() mount.Table {
	c.Helper()
	table, err := c.m.List(c.Context())
	require.NoError(c, err)
	return table
}

// top returns the line of the mount that is visible at target.
func (c *contract) top(target string) mount.Info {
	c.Helper()
	c.isMountPoint(target, true)
	info, ok := c.table().At(target)
	require.True(c, ok)
	return info
}

// fails runs a call that must fail with target and leave the table as it was.
func (c *contract) fails(want error, call func() error) error {
	c.Helper()
	before, err := c.m.List(c.Context())
	require.NoError(c, err)
	failure := call()
	require.ErrorIs(c, failure, want)
	after, err := c.m.List(c.Context())
	require.NoError(c, err)
	require.Equal(c, before, after, "a failed call has changed the mount table")
	return failure
}

// unlocked returns a directory whose mount may get any flag: what a user
// namespace has inherited keeps its own (mount_namespaces(7)).
func (c *contract) unlocked() string {
	c.Helper()
	dir := c.mkdir("unlocked")
	if c.fake == nil {
		c.mount(mount.Request{Source: "tmpfs", Target: dir, FSType: "tmpfs"})
	}
	return c.mkdir("unlocked/source")
}

// refuses makes sure that the request is refused for the sake of the field.
func (c *contract) refuses(field string, req mount.Request) {
	c.Helper()
	before, err := c.m.List(c.Context())
	require.NoError(c, err)
	var input *mount.InputError
	require.ErrorAs(c, c.m.Mount(c.Context(), req), &input, "%+v", req)
	require.Equal(c, field, input.Field)
	after, err := c.m.List(c.Context())
	require.NoError(c, err)
	require.Equal(c, before, after)
}
