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

	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestFakeMatchesKernel: the Fake and the kernel return the same results for sequences of random
// calls, and have the same mount table after each call. A failure names its seed; VOLUMEKIT_SEED=seed
// replays that sequence, and more after it.
func TestFakeMatchesKernel(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	seed, sequences := testbed.Seed(t), testbed.UpTo(400, 2000)
	for range sequences {
		of := seed
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			newComparison(t, of).run(40)
		})
		seed++
	}
}

// A comparison makes one sequence of calls to the kernel and to a Fake.
type comparison struct {
	*testing.T
	random  *rand.Rand
	sides   [2]side // the kernel's and the Fake's
	seed    uint64
	tier    mount.Tier
	history []string // the calls so far
}

func newComparison(t *testing.T, seed uint64) *comparison {
	t.Helper()
	tiers := mount.Tiers()
	tier := tiers[seed%uint64(len(tiers))]
	real := mount.New(mount.Config{
		Tier:       tier,
		StagingDir: filepath.Join(t.TempDir(), "staging"),
		Allow:      mount.Allow{SUID: true, Dev: true},
	})
	d := &comparison{T: t, random: rand.New(rand.NewPCG(seed, 0)), seed: seed, tier: tier}
	fake := mounttest.NewFake(mount.Config{Allow: mount.Allow{SUID: true, Dev: true}})
	d.sides[0] = newSide(t, real, real)
	d.sides[1] = newSide(t, real, fake)
	return d
}

// A call is made on each side. It returns its result and its error.
type call struct {
	name string
	make func(w side) (answer any, err error)
}

func (d *comparison) run(calls int) {
	d.Helper()
	real, fake := d.sides[0], d.sides[1]
	for range calls {
		call := d.randomCall()
		d.history = append(d.history, call.name)
		realAnswer, realErr := call.make(real)
		fakeAnswer, fakeErr := call.make(fake)
		// A concurrent reader of the mount table, for example another comparison, keeps a mount
		// busy for an instant.
		for end := time.Now().Add(time.Minute); errors.Is(realErr, mount.ErrBusy) && fakeErr == nil && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
			realAnswer, realErr = call.make(real)
		}
		about := fmt.Sprintf("VOLUMEKIT_SEED=%d\n%s\nkernel: %v\nfake: %v",
			d.seed, strings.Join(d.history, "\n"), realErr, fakeErr)
		require.Equal(d, describeError(realErr), describeError(fakeErr), about)
		require.Equal(d, realAnswer, fakeAnswer, about)
		require.Equal(d, real.describeMounts(d.T), fake.describeMounts(d.T), about)
	}
}

func (d *comparison) randomCall() call {
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

func (d *comparison) unmount() call {
	target := d.target()
	return call{fmt.Sprintf("unmount %q", target), func(w side) (any, error) {
		return nil, w.Unmount(d.Context(), w.path(target))
	}}
}

func (d *comparison) unmountTree() call {
	target := d.target()
	return call{fmt.Sprintf("unmount tree %q", target), func(w side) (any, error) {
		return nil, w.UnmountTree(d.Context(), w.path(target))
	}}
}

func (d *comparison) isMountPoint() call {
	path := d.path()
	return call{fmt.Sprintf("is mount point %q", path), func(w side) (any, error) {
		return w.IsMountPoint(d.Context(), w.path(path))
	}}
}

func (d *comparison) refs() call {
	path := d.path()
	return call{fmt.Sprintf("refs of %q", path), func(w side) (any, error) {
		refs, err := w.MountRefs(d.Context(), w.path(path))
		return w.relative(refs), err
	}}
}

func (d *comparison) resolve() call {
	path := d.path()
	return call{fmt.Sprintf("resolve %q", path), func(w side) (any, error) {
		place, err := w.Resolve(d.Context(), w.path(path))
		if err != nil {
			return nil, err
		}
		if place.Mount.ID == w.base.ID {
			return "in the base mount: " + w.inBase(place.Path), nil
		}
		at := strings.TrimPrefix(place.Mount.Mountpoint, w.dir)
		return fmt.Sprintf("%q in %q, which %s", place.Path, at, w.describe(place.Mount)), nil
	}}
}

// mountsFrom queries sources that other comparisons mount as well.
func (d *comparison) mountsFrom() call {
	source := oneOf(d, append(someSources, "none", "a\x00"))
	return call{fmt.Sprintf("mounts from %q", source), func(w side) (any, error) {
		mounts, err := w.MountsFrom(d.Context(), source)
		found := []string{}
		for _, info := range mounts {
			if at, ok := strings.CutPrefix(info.Mountpoint, w.dir+"/"); ok {
				found = append(found, at)
			}
		}
		slices.Sort(found) // the copies of a tree's mounts have no specified order
		return found, err
	}}
}

func (d *comparison) mount() call {
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
	return call{name, func(w side) (any, error) {
		req := req
		req.Source, req.Target = source, w.path(target)
		if req.FSType == "" {
			req.Source = w.path(source)
		}
		if d.tier == mount.TierClassic {
			req = w.classicRequest(d.Context(), req)
		}
		return nil, w.Mount(d.Context(), req)
	}}
}

// classicRequest removes those fields from a request whose results differ where mounts are
// built in a staging directory: a mount that is attached in its own peer group appears in
// itself, and flags do not reach included mounts that other mounts hide.
func (w side) classicRequest(ctx context.Context, req mount.Request) mount.Request {
	place, err := w.Resolve(ctx, req.Target)
	if err == nil && len(place.Mount.Tags) > 0 {
		req.Propagation = mount.PropagationPrivate
	}
	if req.Submounts == mount.IncludeSubmounts {
		req.Submounts = mount.HideSubmounts
	}
	return req
}

func (d *comparison) remount() call {
	target, options := d.target(), oneOf(d, someOptions)
	return call{fmt.Sprintf("remount %q %q", target, options), func(w side) (any, error) {
		return nil, w.Mount(d.Context(), mount.Request{Target: w.path(target), Options: options, Remount: true})
	}}
}

// replace removes a directory or file that is only a source of mounts, and may create a new one
// in its place.
func (d *comparison) replace() call {
	name := oneOf(d, []string{"/gone", "/gone-file"})
	file := name == "/gone-file"
	back := d.random.IntN(2) == 0
	busy := false
	return call{fmt.Sprintf("replace %q, put back: %t", name, back), func(w side) (any, error) {
		if busy {
			return nil, nil
		}
		err := os.Remove(w.path(name))
		if busy = w.real && errors.Is(err, syscall.EBUSY); busy || !back {
			return nil, nil // it is a mount point at another path
		}
		if file {
			return nil, os.WriteFile(w.path(name), nil, 0o644)
		}
		return nil, os.Mkdir(w.path(name), 0o755)
	}}
}

func oneOf[T any](d *comparison, of []T) T { return of[d.random.IntN(len(of))] }

func (d *comparison) path() string {
	if d.random.IntN(8) == 0 {
		return oneOf(d, sources)
	}
	return d.target()
}

func (d *comparison) target() string {
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

// A side is the kernel or the Fake in a comparison, with a directory. The directories of both
// sides have the same files.
type side struct {
	mount.Interface
	dir  string
	base mount.Info // the mount that contains dir
	real bool
}

// newSide creates the directory on a tmpfs of its own: its mount may get any flag, and inode
// numbers are not reused.
func newSide(t *testing.T, kernel *mount.Mounter, m mount.Interface) side {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{
		Source: "side", Target: dir, FSType: "tmpfs", Options: []string{"suid", "dev"},
	}))
	w := side{Interface: m, dir: dir, real: m == mount.Interface(kernel)}
	t.Cleanup(func() { w.unmountAll(t, kernel) })
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

// path returns the path of a name in the directory of the side. It returns names without a slash
// unchanged.
func (w side) path(name string) string {
	if strings.HasPrefix(name, "/") {
		return w.dir + name
	}
	return name
}

func (w side) relative(paths []string) []string {
	out := []string{}
	for _, p := range paths {
		out = append(out, strings.TrimPrefix(p, w.dir))
	}
	return out
}

// describeMounts describes the mounts of the side without values that differ between the two
// sides.
func (w side) describeMounts(t *testing.T) []string {
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
			break // the rest is outside of the directory
		}
		pending = later
	}
	slices.Sort(shape)
	return withTags(shape, tags)
}

// withTags adds the propagation tags to each line, with peer groups numbered by first use.
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

func (w side) describe(info mount.Info) string {
	what := fmt.Sprintf("%s %q", info.FSType, info.Source)
	if info.Major == w.base.Major && info.Minor == w.base.Minor {
		what = "of the base file system"
		info.Root = w.inBase(info.Root)
	}
	return fmt.Sprintf("shows %q %s, deleted: %t, %v %v", info.Root, what, info.Deleted, info.Flags, info.Options)
}

// inBase returns the path in the directory of the side for a path in the base file system.
func (w side) inBase(p string) string {
	if w.real {
		return p
	}
	return strings.TrimPrefix(p, w.dir)
}

// unmountAll unmounts all mounts below the directory, and the tmpfs of the directory.
func (w side) unmountAll(t *testing.T, kernel *mount.Mounter) {
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

// describeError describes an error by the properties that a caller can test with errors.Is and
// errors.As.
func describeError(err error) string {
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
