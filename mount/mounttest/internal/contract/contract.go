// Package contract is the contract of mount.Interface: each sentence of its
// documentation as a test. Package mounttest runs it. It imports neither testing nor
// testify, because mounttest does not.
package contract

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/mount"
)

// T has the methods of a *testing.T that the contract uses.
type T interface {
	require.TestingT
	Cleanup(f func())
	Context() context.Context
	Error(args ...any)
	Skip(args ...any)
	TempDir() string
}

// A Fake is a kernel in memory. The contract reads and writes the real files below its
// mounts, and makes its calls fail.
type Fake interface {
	// RealPath returns the real path of a path in a mount, and whether the mount is
	// read-only.
	RealPath(p string) (real string, readOnly bool, err error)
	// FailUnmount makes Unmount fail: for one path (empty: any), so many times (0: always).
	FailUnmount(path string, err error, times int)
	// ClearFaults ends the failures of FailUnmount.
	ClearFaults()
}

// Config configures a test.
type Config struct {
	// New returns a mounter that has mounted nothing below T's TempDir.
	New func(config mount.Config) mount.Interface
	// FakeOf returns the Fake behind a mounter, or nil for one that mounts for real.
	FakeOf func(mount.Interface) Fake
	Short  bool // fewer repetitions
}

// A Test is one test of the contract.
type Test func(t T, config Config)

// Tests returns the contract's tests by name.
func Tests() map[string]Test {
	all := map[string]Test{}
	for name, test := range tests {
		all[name] = func(t T, config Config) { test(newContract(t, config)) }
	}
	return all
}

var tests = map[string]func(*contract){
	"Bind":                    (*contract).bind,
	"BindFile":                (*contract).bindFile,
	"BindDevice":              (*contract).bindDevice,
	"DeviceFileAlone":         (*contract).deviceFileAlone,
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
	"SomethingElseMounted":    (*contract).otherMount,
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
	"Directory":               (*contract).directory,
	"DirectoryDeclined":       (*contract).directoryDeclined,
	"IDMap":                   (*contract).idMap,
	"Remount":                 (*contract).remount,
	"RemountOneMount":         (*contract).remountOneMount,
	"RemountNothing":          (*contract).remountNothing,
	"RemountReadOnly":         (*contract).remountReadOnly,
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

// A contract is one test of the contract.
type contract struct {
	T
	new   func(config mount.Config) mount.Interface
	m     mount.Interface
	fake  Fake // nil: real mounts
	dir   string
	short bool
}

func newContract(t T, config Config) *contract {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &contract{T: t, dir: dir, new: config.New, short: config.Short}
	c.m = c.new(mount.Config{})
	c.fake = config.FakeOf(c.m)
	return c
}

// path returns the path of a name in the test's directory.
func (c *contract) path(name string) string { return filepath.Join(c.dir, name) }

// makeDir creates a directory in the test's directory and returns its path.
func (c *contract) makeDir(name string) string {
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

// entriesAt returns the entries of the mount table for a mount point, top last.
func (c *contract) entriesAt(target string) []mount.Info {
	c.Helper()
	table, err := c.m.List(c.Context())
	require.NoError(c, err)
	return slices.DeleteFunc(slices.Clone(table), func(i mount.Info) bool { return i.Mountpoint != target })
}

func (c *contract) requireMountPoint(target string) {
	c.Helper()
	c.requireMountState(target, true)
}

func (c *contract) requireNoMountPoint(target string) {
	c.Helper()
	c.requireMountState(target, false)
}

// requireMountState verifies whether a path is a mount point, by a query and by the table.
func (c *contract) requireMountState(target string, want bool) {
	c.Helper()
	is, err := c.m.IsMountPoint(c.Context(), target)
	require.NoError(c, err)
	require.Equal(c, want, is, "is a mount point: %s", target)
	require.Equal(c, want, len(c.entriesAt(target)) > 0, "in the table: %s", target)
}

// writeFile writes a file at a path that may be in a mount.
func (c *contract) writeFile(name string) error {
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

func (c *contract) requireExists(name string) {
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

// topEntry returns the entry of the visible mount at target.
func (c *contract) topEntry(target string) mount.Info {
	c.Helper()
	c.requireMountPoint(target)
	info, ok := c.table().At(target)
	require.True(c, ok)
	return info
}

// requireFails requires a call to fail with want and to leave the mount table unchanged. It
// returns the error.
func (c *contract) requireFails(want error, call func() error) error {
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

// unlockedSource returns a directory on a mount that may get any flag: a user namespace cannot
// clear the flags of inherited mounts (mount_namespaces(7)).
func (c *contract) unlockedSource() string {
	c.Helper()
	dir := c.makeDir("unlocked")
	if c.fake == nil {
		c.mount(mount.Request{Source: "tmpfs", Target: dir, FSType: "tmpfs"})
	}
	return c.makeDir("unlocked/source")
}

// requireRefused requires the request to be refused because of the field.
func (c *contract) requireRefused(field string, req mount.Request) {
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
