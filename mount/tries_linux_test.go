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

// A try is a call about a sick file system.
type try struct {
	call func(ctx context.Context) error
	// asks: it needs an answer of that file system. The others end with want if
	// only there is time.
	asks bool
	want error
	// undo takes back what a call that returned nil has changed.
	undo func(ctx context.Context) error
}

// changes reports whether it may have changed something.
func (y try) changes(err error) bool {
	return y.undo != nil && (err == nil || errors.Is(err, mount.ErrUncertain))
}

// settle makes a try come to its end, and takes it back.
func (y try) settle(t *testing.T, name string) {
	t.Helper()
	within(t, func() { require.ErrorIs(t, y.call(t.Context()), y.want, name) })
	y.takeBack(t)
}

// takeBack undoes a successful try.
func (y try) takeBack(t *testing.T) {
	t.Helper()
	if y.undo != nil {
		within(t, func() { require.NoError(t, y.undo(t.Context())) })
	}
}

// triesOn are all methods, on what is sick, inside of it, and with it inside.
func triesOn(t *testing.T, m *mount.Mounter, s sick) map[string]try {
	t.Helper()
	tries := map[string]try{}
	inside, around := s.path+"/none", path.Dir(s.path)
	for name, query := range map[string]func(ctx context.Context, p string) error{
		"is mount point": func(ctx context.Context, p string) error { _, err := m.IsMountPoint(ctx, p); return err },
		"refs":           func(ctx context.Context, p string) error { _, err := m.MountRefs(ctx, p); return err },
		"resolve":        func(ctx context.Context, p string) error { _, err := m.Resolve(ctx, p); return err },
	} {
		tries[name] = try{call: func(ctx context.Context) error { return query(ctx, s.path) }}
		tries[name+" inside"] = try{asks: true, call: func(ctx context.Context) error { return query(ctx, inside) }}
	}
	tries["list"] = try{call: func(ctx context.Context) error { _, err := m.List(ctx); return err }}
	tries["mounts from"] = try{call: func(ctx context.Context) error { _, err := m.MountsFrom(ctx, s.source); return err }}
	tries["mounts from inside"] = try{asks: true, call: func(ctx context.Context) error { _, err := m.MountsFrom(ctx, inside); return err }}
	tries["unmount inside"] = try{asks: true, call: func(ctx context.Context) error { return m.Unmount(ctx, inside) }}
	tries["unmount tree inside"] = try{asks: true, call: func(ctx context.Context) error { return m.UnmountTree(ctx, inside) }}
	tries["isolate"] = try{call: func(ctx context.Context) error { return m.Isolate(ctx, s.path) }}
	tries["isolate inside"] = try{asks: true, call: func(ctx context.Context) error { return m.Isolate(ctx, inside) }}
	tries["remount inside"] = try{asks: true, call: func(ctx context.Context) error {
		return m.Mount(ctx, mount.Request{Target: inside, Remount: true, Options: []string{"ro"}})
	}}
	flags := tableAt(t, m, s.path).Flags
	tries["remount"] = try{
		call: func(ctx context.Context) error {
			return m.Mount(ctx, mount.Request{Target: s.path, Remount: true, Options: []string{"ro", "noexec"}})
		},
		undo: func(ctx context.Context) error {
			require.Equal(t, flags|mount.ReadOnly|mount.NoExec, tableAt(t, m, s.path).Flags)
			return m.Mount(ctx, mount.Request{Target: s.path, Remount: true, Options: []string{"rw", "exec"}})
		},
	}
	triesToMount(t, m, s, inside, around, tries)
	return tries
}

// triesToMount are those, each on a target of its own: one that is stuck keeps it.
func triesToMount(t *testing.T, m *mount.Mounter, s sick, inside, around string, tries map[string]try) {
	t.Helper()
	dir := mkdirs(t, "source")
	// With a mount of the sick file system below, where the request wants to see it.
	below := []string{"/" + path.Base(s.path)}
	for name, how := range map[string]struct {
		req   mount.Request
		asks  bool
		want  error
		below []string
	}{
		"bind":                  {req: mount.Request{Source: s.path}},
		"bind including":        {req: mount.Request{Source: s.path, Submounts: mount.IncludeSubmounts}},
		"bind hiding":           {req: mount.Request{Source: s.path, Submounts: mount.HideSubmounts}},
		"bind around":           {req: mount.Request{Source: around}, want: mount.ErrSubmounts},
		"bind around including": {req: mount.Request{Source: around, Submounts: mount.IncludeSubmounts, Options: []string{"ro"}}, below: below},
		"bind around hiding":    {req: mount.Request{Source: around, Submounts: mount.HideSubmounts}},
		"bind inside":           {req: mount.Request{Source: inside}, asks: true},
		"bind inside including": {req: mount.Request{Source: inside, Submounts: mount.IncludeSubmounts}, asks: true},
		"bind inside hiding":    {req: mount.Request{Source: inside, Submounts: mount.HideSubmounts}, asks: true},
		"mount inside":          {req: mount.Request{Source: dir + "/source", Target: inside}, asks: true},
		"mount inside hiding":   {req: mount.Request{Source: dir + "/source", Target: inside, Submounts: mount.HideSubmounts}, asks: true},
		"file system inside":    {req: mount.Request{Source: "x", FSType: "tmpfs", Target: inside}, asks: true},
		"file system of FUSE inside": {asks: true, req: mount.Request{
			Source: "x", FSType: "fuse", Target: inside, Options: []string{"fd=0", "rootmode=40000", "user_id=0", "group_id=0"},
		}},
	} {
		req := how.req
		if req.Target == "" {
			req.Target = mkdir(t, dir+"/"+name)
		}
		y := try{asks: how.asks, want: how.want, call: func(ctx context.Context) error { return m.Mount(ctx, req) }}
		if !how.asks && how.want == nil {
			y.undo = func(ctx context.Context) error {
				require.True(t, isMountPoint(t, req.Target), name)
				for _, path := range how.below {
					require.True(t, isMountPoint(t, req.Target+path), name)
				}
				return m.UnmountTree(ctx, req.Target)
			}
		}
		tries[name] = y
	}
}

// world is what is mounted, and how.
func world(t *testing.T) (mounts []string) {
	t.Helper()
	table, err := mount.New(mount.Config{}).List(t.Context())
	require.NoError(t, err)
	for _, info := range table {
		mounts = append(mounts, info.Mountpoint+" "+info.FSType+" "+info.Flags.String())
	}
	slices.Sort(mounts)
	return mounts
}
