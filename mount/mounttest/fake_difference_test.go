package mounttest_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// The Fake and the kernel give the same answers to the same random calls, and
// have the same table after each. The sequences are the same each time. With
// VOLUMEKIT_SEED=random they are other ones; a failure names its seed, and
// VOLUMEKIT_SEED=seed replays that sequence alone.
func TestFakeDiffersNotFromKernel(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	seed, sequences := seeds(t)
	t.Logf("seeds %d to %d", seed, seed+sequences-1)
	for range sequences {
		of := seed
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newDuel(t, of).run(40)
		})
		seed++
	}
}

func seeds(t *testing.T) (first, count uint64) {
	t.Helper()
	some := uint64(200)
	if testing.Short() {
		some = 40
	}
	switch text := os.Getenv("VOLUMEKIT_SEED"); text {
	case "":
		return 1, some
	case "random":
		return rand.Uint64N(1_000_000_000), some
	default:
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return seed, 1
	}
}

// A duel is one sequence of calls to the kernel and to a Fake.
type duel struct {
	*testing.T
	random *rand.Rand
	worlds [2]world // the kernel's and the Fake's
	seed   uint64
	tier   mount.Tier
	past   []string // the calls so far
}

func newDuel(t *testing.T, seed uint64) *duel {
	t.Helper()
	tiers := mount.Tiers()
	tier := tiers[seed%uint64(len(tiers))]
	real := mount.New(mount.Config{
		Tier:       tier,
		StagingDir: filepath.Join(t.TempDir(), "staging"),
		Allow:      mount.Allow{SUID: true, Dev: true},
	})
	d := &duel{T: t, random: rand.New(rand.NewPCG(seed, 0)), seed: seed, tier: tier}
	fake := mounttest.NewFake(mount.Config{Allow: mount.Allow{SUID: true, Dev: true}})
	d.worlds[0] = newWorld(t, real, real)
	d.worlds[1] = newWorld(t, real, fake)
	return d
}

// A call is made in a world and returns its answer, apart from the error.
type call struct {
	name string
	make func(w world) (answer any, err error)
}

func (d *duel) run(calls int) {
	d.Helper()
	real, fake := d.worlds[0], d.worlds[1]
	for range calls {
		call := d.pick()
		d.past = append(d.past, call.name)
		realAnswer, realErr := call.make(real)
		fakeAnswer, fakeErr := call.make(fake)
		// Whoever reads the mount table meanwhile holds a mount for an instant, and there
		// are other duels.
		for end := time.Now().Add(time.Minute); errors.Is(realErr, mount.ErrBusy) && fakeErr == nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
			realAnswer, realErr = call.make(real)
		}
		about := fmt.Sprintf("VOLUMEKIT_SEED=%d\n%s\nkernel: %v\nfake: %v",
			d.seed, strings.Join(d.past, "\n"), realErr, fakeErr)
		require.Equal(d, kindOf(realErr), kindOf(fakeErr), about)
		require.Equal(d, realAnswer, fakeAnswer, about)
		require.Equal(d, real.shape(d.T), fake.shape(d.T), about)
	}
}

func (d *duel) pick() call {
	calls := []struct {
		weight int
		pick   func() call
	}{
		{9, d.mount}, {3, d.remount}, {4, d.unmount}, {3, d.unmountTree},
		{2, d.isMountPoint}, {3, d.refs}, {3, d.resolve}, {1, d.mountsFrom}, {1, d.replace},
	}
	all := 0
	for _, c := range calls {
		all += c.weight
	}
	n := d.random.IntN(all)
	for _, c := range calls {
		if n -= c.weight; n < 0 {
			return c.pick()
		}
	}
	panic("unreachable")
}

func (d *duel) unmount() call {
	target := d.target()
	return call{fmt.Sprintf("unmount %q", target), func(w world) (any, error) {
		return nil, w.Unmount(d.Context(), w.path(target))
	}}
}

func (d *duel) unmountTree() call {
	target := d.target()
	return call{fmt.Sprintf("unmount tree %q", target), func(w world) (any, error) {
		return nil, w.UnmountTree(d.Context(), w.path(target))
	}}
}

func (d *duel) isMountPoint() call {
	path := d.path()
	return call{fmt.Sprintf("is mount point %q", path), func(w world) (any, error) {
		return w.IsMountPoint(d.Context(), w.path(path))
	}}
}

func (d *duel) refs() call {
	path := d.path()
	return call{fmt.Sprintf("refs of %q", path), func(w world) (any, error) {
		refs, err := w.MountRefs(d.Context(), w.path(path))
		return w.relative(refs), err
	}}
}

func (d *duel) resolve() call {
	path := d.path()
	return call{fmt.Sprintf("resolve %q", path), func(w world) (any, error) {
		place, err := w.Resolve(d.Context(), w.path(path))
		if err != nil {
			return nil, err
		}
		if place.Mount.ID == w.base.ID {
			return "of the world: " + w.inBase(place.Path), nil
		}
		at := strings.TrimPrefix(place.Mount.Mountpoint, w.dir)
		return fmt.Sprintf("%q in %q, which %s", place.Path, at, w.describe(place.Mount)), nil
	}}
}

// mountsFrom asks about words that other worlds use as well.
func (d *duel) mountsFrom() call {
	source := oneOf(d, append(someSources, "none", "a\x00"))
	return call{fmt.Sprintf("mounts from %q", source), func(w world) (any, error) {
		mounts, err := w.MountsFrom(d.Context(), source)
		found := []string{}
		for _, info := range mounts {
			if at, ok := strings.CutPrefix(info.Mountpoint, w.dir+"/"); ok {
				found = append(found, at)
			}
		}
		slices.Sort(found) // who is made first when a tree is copied is not said
		return found, err
	}}
}

func (d *duel) mount() call {
	source, target, options := d.path(), d.target(), oneOf(d, someOptions)
	req := mount.Request{
		Options:     options,
		Stack:       d.random.IntN(3) == 0,
		Propagation: oneOf(d, somePropagation),
	}
	if d.random.IntN(5) == 0 {
		req.FSType, source = "tmpfs", oneOf(d, someSources)
	} else {
		req.Submounts = oneOf(d, someSubmounts)
	}
	name := fmt.Sprintf("mount %q on %q, %+v", source, target, req)
	return call{name, func(w world) (any, error) {
		req := req
		req.Source, req.Target = source, w.path(target)
		if req.FSType == "" {
			req.Source = w.path(source)
		}
		if d.tier == mount.TierClassic {
			req = w.classic(d.Context(), req)
		}
		return nil, w.Mount(d.Context(), req)
	}}
}

// classic leaves out of a request what comes out differently where mounts are made
// in a staging directory: one that is attached in its own peer group appears in
// itself, and flags do not get to included mounts that others hide.
func (w world) classic(ctx context.Context, req mount.Request) mount.Request {
	place, err := w.Resolve(ctx, req.Target)
	if err == nil && len(place.Mount.Tags) > 0 {
		req.Propagation = mount.PropagationPrivate
	}
	if req.Submounts == mount.IncludeSubmounts {
		req.Submounts = mount.HideSubmounts
	}
	return req
}

func (d *duel) remount() call {
	target, options := d.target(), oneOf(d, someOptions)
	return call{fmt.Sprintf("remount %q %q", target, options), func(w world) (any, error) {
		return nil, w.Mount(d.Context(), mount.Request{Target: w.path(target), Options: options, Remount: true})
	}}
}

// replace puts a new directory or file in the place of one that is only a source
// of mounts.
func (d *duel) replace() call {
	name := oneOf(d, []string{"/gone", "/gone-file"})
	file := name == "/gone-file"
	back := d.random.IntN(2) == 0
	busy := false
	return call{fmt.Sprintf("replace %q, put back: %t", name, back), func(w world) (any, error) {
		if busy {
			return nil, nil
		}
		err := os.Remove(w.path(name))
		if busy = w.real && errors.Is(err, syscall.EBUSY); busy || !back {
			return nil, nil // the kernel keeps what is mounted on, somewhere
		}
		if file {
			return nil, os.WriteFile(w.path(name), nil, 0o644)
		}
		return nil, os.Mkdir(w.path(name), 0o755)
	}}
}

func oneOf[T any](d *duel, of []T) T { return of[d.random.IntN(len(of))] }

func (d *duel) path() string {
	if d.random.IntN(8) == 0 {
		return oneOf(d, sources)
	}
	return d.target()
}

func (d *duel) target() string {
	if d.random.IntN(12) == 0 {
		return oneOf(d, badPaths)
	}
	return oneOf(d, goodPaths)
}

var (
	someOptions = [][]string{
		nil, nil, nil, {"ro"}, {"rw"}, {"noexec"}, {"exec"}, {"noatime"}, {"relatime"}, {"atime"}, {"strictatime"},
		{"nodiratime"}, {"diratime"}, {"norelatime"}, {"nostrictatime"}, {"nosymfollow"}, {"symfollow"},
		{"suid"}, {"dev", "suid"}, {"nosuid"}, {"ro", "noexec", "noatime"}, {"_netdev", "nofail"},
		{"ro", "rw"}, {"sync"}, {"bind"}, {"x-y"}, {"ro", ""}, {"size=1m"}, {"size=1m", "mode=700", "ro"}, {"ro=1"},
	}
	someSources   = []string{"x", "y", "", "a b"}
	someSubmounts = []mount.Submounts{
		mount.RefuseSubmounts, mount.HideSubmounts, mount.HideSubmounts, mount.IncludeSubmounts,
	}
	somePropagation = []mount.Propagation{
		mount.PropagationPrivate, mount.PropagationPrivate, mount.PropagationSlave, mount.PropagationShared,
	}
	directories = []string{"/a", "/a/b", "/a/b/c", "/d", "/d/e", "/sp ace", "/new\nline", `/octal\040`, "/\xff#,"}
	files       = []string{"/f", "/a/g"}
	links       = map[string]string{"/l": "a", "/a/m": "../d", "/lf": "f", "/loop": "loop", "/dangling": "none"}
	sources     = []string{"/gone", "/gone-file"} // never mounted on
	// Links and odd spellings of the others.
	goodPaths = append(slices.Concat(directories, directories, files, files),
		"/l", "/l/b", "/a/m", "/a/m/e", "/lf", "/a/", "/a/./b", "//d", "/d/e/.")
	badPaths = []string{
		"", "relative", "/a/../d", "/a\x00", "/none", "/a/none/x", "/f/x", "/f/", "/l/", "/lf/", "/loop", "/loop/x",
		"/dangling", "/dangling/x", "/" + strings.Repeat("n", 300),
	}
)

// A world is one side of a duel, with a directory that both have alike.
type world struct {
	mount.Interface
	dir  string
	base mount.Info // the mount that dir is in
	real bool
}

// newWorld makes the directory a file system of its own: its mount may get any
// flag, and numbers of inodes are not used again.
func newWorld(t *testing.T, kernel *mount.Mounter, m mount.Interface) world {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{
		Source: "world", Target: dir, FSType: "tmpfs", Options: []string{"suid", "dev"},
	}))
	w := world{Interface: m, dir: dir, real: m == mount.Interface(kernel)}
	t.Cleanup(func() { w.clear(t, kernel) })
	for _, dir := range append(directories, "/gone") {
		require.NoError(t, os.Mkdir(w.path(dir), 0o755))
	}
	for _, file := range append(files, "/gone-file") {
		require.NoError(t, os.WriteFile(w.path(file), nil, 0o644))
	}
	for link, target := range links {
		require.NoError(t, os.Symlink(target, w.path(link)))
	}
	table, err := m.List(context.Background())
	require.NoError(t, err)
	w.base, _ = mount.Table(table).Containing(dir)
	return w
}

// path returns the path of a name in the world; names without a slash are left
// as they are.
func (w world) path(name string) string {
	if strings.HasPrefix(name, "/") {
		return w.dir + name
	}
	return name
}

func (w world) relative(paths []string) []string {
	out := []string{}
	for _, p := range paths {
		out = append(out, strings.TrimPrefix(p, w.dir))
	}
	return out
}

// shape returns what is mounted in the world in words that both worlds share.
func (w world) shape(t *testing.T) []string {
	t.Helper()
	table, err := w.List(context.Background())
	require.NoError(t, err)
	place := map[int]string{w.base.ID: ""}
	shape, tags := []string{}, map[string][]string{}
	for pending := table; len(pending) > 0; {
		later := slices.DeleteFunc(slices.Clone(pending), func(info mount.Info) bool {
			_, found := place[info.Parent]
			if found && info.ID != w.base.ID {
				place[info.ID] = place[info.Parent] + " > " + strconv.Quote(strings.TrimPrefix(info.Mountpoint, w.dir))
				line := place[info.ID] + " " + w.describe(info)
				shape = append(shape, line)
				tags[line] = info.Tags
			}
			return found
		})
		if len(later) == len(pending) {
			break // the rest is not of this world
		}
		pending = later
	}
	slices.Sort(shape)
	return withTags(shape, tags)
}

// withTags adds the peer groups of each line, in numbers of their own.
func withTags(shape []string, tags map[string][]string) []string {
	numbers := map[string]int{}
	for i, line := range shape {
		for _, tag := range tags[line] {
			kind, group, _ := strings.Cut(tag, ":")
			if numbers[group] == 0 {
				numbers[group] = len(numbers) + 1
			}
			shape[i] += fmt.Sprintf(" %s:%d", kind, numbers[group])
		}
	}
	return shape
}

func (w world) describe(info mount.Info) string {
	what := fmt.Sprintf("%s %q", info.FSType, info.Source)
	if info.Major == w.base.Major && info.Minor == w.base.Minor {
		what = "of the world"
		info.Root = w.inBase(info.Root)
	}
	return fmt.Sprintf("shows %q %s, deleted: %t, %v %v", info.Root, what, info.Deleted, info.Flags, info.Options)
}

// inBase returns the path of a name in the world, for a path in the file system
// that the world is in.
func (w world) inBase(p string) string {
	if w.real {
		return p
	}
	return strings.TrimPrefix(p, w.dir)
}

// clear unmounts all of the world and the world.
func (w world) clear(t *testing.T, kernel *mount.Mounter) {
	t.Helper()
	for range 100 {
		table, err := kernel.List(context.Background())
		require.NoError(t, err)
		for _, info := range slices.Backward(table) {
			if info.Mountpoint == w.dir || strings.HasPrefix(info.Mountpoint, w.dir+"/") {
				_ = kernel.Unmount(context.Background(), info.Mountpoint)
			}
		}
		if is, err := kernel.IsMountPoint(context.Background(), w.dir); err == nil && !is {
			return
		}
	}
	t.Errorf("%s cannot be unmounted", w.dir)
}

// kindOf returns what a caller can tell about an error.
func kindOf(err error) string {
	var input *mount.InputError
	if errors.As(err, &input) {
		return "input " + input.Field
	}
	for _, known := range []error{
		mount.ErrMounted, mount.ErrUncertain, mount.ErrNotAsRequested, mount.ErrSubmounts, mount.ErrNotMounted,
		mount.ErrNotAnswering, mount.ErrStillMounted, mount.ErrBusy, errors.ErrUnsupported,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno.Error()
	}
	return fmt.Sprint(err)
}
