package mount_test

import (
	"context"
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// A fsCall is a call about a broken file system.
type fsCall struct {
	call func(ctx context.Context) error
	// asks marks a call that needs an answer of the broken file system. Other calls return
	// want if they have enough time.
	needsAnswer bool
	want        error
	again       error // of the call after a successful one
	// undo reverts the changes of a successful call.
	undo func(ctx context.Context) error
}

// mayHaveChanged reports whether a call that returned err may have changed mounts.
func (c fsCall) mayHaveChanged(err error) bool {
	return c.undo != nil && (err == nil || errors.Is(err, mount.ErrUncertain))
}

// requireCompletion makes the call with the context of the test, requires the error want, and
// reverts the changes of the call.
func (c fsCall) requireCompletion(t *testing.T, name string, want error) {
	t.Helper()
	requireReturns(t, func() { require.ErrorIs(t, c.call(t.Context()), want, name) })
	c.undoChange(t)
}

// undoChange reverts the changes of a successful call.
func (c fsCall) undoChange(t *testing.T) {
	t.Helper()
	if c.undo != nil {
		requireReturns(t, func() { require.NoError(t, c.undo(t.Context())) })
	}
}

// fsCalls returns calls of all methods: at the mount point of a broken file system, at a path
// inside it, and at a directory above it.
func fsCalls(t *testing.T, m *mount.Mounter, s brokenFS) map[string]fsCall {
	t.Helper()
	calls := map[string]fsCall{}
	inside, around := s.path+"/none", path.Dir(s.path)
	for name, query := range map[string]func(ctx context.Context, p string) error{
		"is mount point": func(ctx context.Context, p string) error { _, err := m.IsMountPoint(ctx, p); return err },
		"refs":           func(ctx context.Context, p string) error { _, err := m.MountRefs(ctx, p); return err },
		"resolve":        func(ctx context.Context, p string) error { _, err := m.Resolve(ctx, p); return err },
	} {
		calls[name] = fsCall{call: func(ctx context.Context) error { return query(ctx, s.path) }}
		calls[name+" inside"] = fsCall{needsAnswer: true, call: func(ctx context.Context) error { return query(ctx, inside) }}
	}
	calls["list"] = fsCall{call: func(ctx context.Context) error { _, err := m.List(ctx); return err }}
	calls["mounts from"] = fsCall{call: func(ctx context.Context) error { _, err := m.MountsFrom(ctx, s.source); return err }}
	calls["mounts from inside"] = fsCall{needsAnswer: true, call: func(ctx context.Context) error { _, err := m.MountsFrom(ctx, inside); return err }}
	calls["unmount inside"] = fsCall{needsAnswer: true, call: func(ctx context.Context) error { return m.Unmount(ctx, inside) }}
	calls["unmount tree inside"] = fsCall{needsAnswer: true, call: func(ctx context.Context) error { return m.UnmountTree(ctx, inside) }}
	calls["isolate"] = fsCall{call: func(ctx context.Context) error { return m.Isolate(ctx, s.path) }}
	calls["isolate inside"] = fsCall{needsAnswer: true, call: func(ctx context.Context) error { return m.Isolate(ctx, inside) }}
	calls["remount inside"] = fsCall{needsAnswer: true, call: func(ctx context.Context) error {
		return m.Mount(ctx, mount.Request{Target: inside, Remount: true, Options: []string{"ro"}})
	}}
	flags := entryAt(t, m, s.path).Flags
	calls["remount"] = fsCall{
		call: func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Target: s.path, Remount: true, Options: []string{"ro", "noexec"}})
		},
		undo: func(ctx context.Context) error {
			require.Equal(t, flags|mount.ReadOnly|mount.NoExec, entryAt(t, m, s.path).Flags)
			return m.Mount(ctx, mount.Request{Target: s.path, Remount: true, Options: []string{"rw", "exec"}})
		},
	}
	addMountCalls(t, m, s, inside, around, calls)
	return calls
}

// addMountCalls adds calls of Mount, each with a target of its own: a call that hangs
// keeps its target locked.
func addMountCalls(t *testing.T, m *mount.Mounter, s brokenFS, inside, around string, calls map[string]fsCall) {
	t.Helper()
	dir := mkdirs(t, "source")
	// The path of the broken file system below the target, if the request includes submounts.
	below := []string{"/" + path.Base(s.path)}
	for name, test := range map[string]struct {
		req         mount.Request
		needsAnswer bool
		want        error
		below       []string
	}{
		"bind":                  {req: mount.Request{Source: s.path}},
		"bind including":        {req: mount.Request{Source: s.path, Submounts: mount.IncludeSubmounts}},
		"bind hiding":           {req: mount.Request{Source: s.path, Submounts: mount.HideSubmounts}},
		"bind around":           {req: mount.Request{Source: around}, want: mount.ErrSubmounts},
		"bind around including": {req: mount.Request{Source: around, Submounts: mount.IncludeSubmounts, Options: []string{"ro"}}, below: below},
		"bind around hiding":    {req: mount.Request{Source: around, Submounts: mount.HideSubmounts}},
		"bind inside":           {req: mount.Request{Source: inside}, needsAnswer: true},
		"bind inside including": {req: mount.Request{Source: inside, Submounts: mount.IncludeSubmounts}, needsAnswer: true},
		"bind inside hiding":    {req: mount.Request{Source: inside, Submounts: mount.HideSubmounts}, needsAnswer: true},
		"mount inside":          {req: mount.Request{Source: dir + "/source", Target: inside}, needsAnswer: true},
		"mount inside hiding":   {req: mount.Request{Source: dir + "/source", Target: inside, Submounts: mount.HideSubmounts}, needsAnswer: true},
		"file system inside":    {req: mount.Request{Source: "x", FSType: "tmpfs", Target: inside}, needsAnswer: true},
		"file system of FUSE inside": {needsAnswer: true, req: mount.Request{
			Source: "x", FSType: "fuse", Target: inside, Options: []string{"fd=0", "rootmode=40000", "user_id=0", "group_id=0"},
		}},
	} {
		req := test.req
		if req.Target == "" {
			req.Target = mkdir(t, dir+"/"+name)
		}
		c := fsCall{needsAnswer: test.needsAnswer, want: test.want, call: func(ctx context.Context) error { return m.Mount(ctx, req) }}
		if s.isDead && req.Source == s.path {
			c.again = mount.ErrCorrupted
		}
		if !test.needsAnswer && test.want == nil {
			c.undo = func(ctx context.Context) error {
				require.True(t, isMountPoint(t, req.Target), name)
				for _, path := range test.below {
					require.True(t, isMountPoint(t, req.Target+path), name)
				}
				return m.UnmountTree(ctx, req.Target)
			}
		}
		calls[name] = c
	}
}

// listMounts returns the mount point, type and flags of each mount in the mount table, sorted.
func listMounts(t *testing.T) (mounts []string) {
	t.Helper()
	table, err := mount.New(mount.Config{}).List(t.Context())
	require.NoError(t, err)
	for _, info := range table {
		mounts = append(mounts, info.Mountpoint+" "+info.FSType+" "+info.Flags.String())
	}
	slices.Sort(mounts)
	return mounts
}
