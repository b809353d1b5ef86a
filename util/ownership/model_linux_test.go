package ownership

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"golang.org/x/sys/unix"
)

// TestModel makes random trees, each twice, and compares the results of Apply and of a
// plain walk.
func TestModel(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		for seed := range uint64(testbed.UpTo(200, 10_000)) {
			testModel(t, fmt.Sprintf("%s/%d", dir, seed), seed)
		}
	})
}

func testModel(t *testing.T, dir string, seed uint64) {
	var mounts []string
	for _, name := range []string{"/ours", "/plain"} {
		m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 0)), dir: dir + name, outside: dir + "/outside" + name}
		testbed.Fill(t, m.outside, "file")
		testbed.Fill(t, m.dir, "volume/")
		m.grow("volume", 0)
		m.dress("volume")
		mounts = append(mounts, m.mounts...)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	o := Options{Workers: 1 + rng.IntN(4), ReadOnly: rng.IntN(2) == 0}
	if rng.IntN(4) > 0 {
		o.Group = id(rng.Int64N(3))
	}
	if rng.IntN(3) == 0 {
		o.User = id(rng.Int64N(3))
	}
	_, err := Apply(t.Context(), dir+"/ours/volume", o)
	require.NoError(t, err, "seed %d", seed)
	require.NoError(t, applyPlainly(dir+"/plain/volume", o), "seed %d", seed)
	for _, tree := range []string{"", "/outside"} {
		require.Equal(t, describeEntries(t, dir+tree+"/plain"), describeEntries(t, dir+tree+"/ours"), "seed %d: %+v", seed, o)
	}
	for _, name := range mounts {
		require.NoError(t, unix.Unmount(name, unix.MNT_DETACH))
	}
}

// applyPlainly is the plain walk: the expected result of Apply.
func applyPlainly(dir string, o Options) error {
	var home syscall.Stat_t
	if err := syscall.Lstat(dir, &home); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(name)
		if err != nil {
			return err
		}
		before := info.Sys().(*syscall.Stat_t)
		if before.Dev != home.Dev {
			return fs.SkipDir
		}
		return plainlyOne(name, info, before, o)
	})
}

func plainlyOne(name string, info fs.FileInfo, before *syscall.Stat_t, o Options) error {
	uid, gid, mode := int(before.Uid), int(before.Gid), info.Mode()
	if o.User != nil {
		uid = int(*o.User)
	}
	if o.Group != nil {
		gid = int(*o.Group)
		mode |= 0o440
		if !o.ReadOnly {
			mode |= 0o660
		}
		if info.IsDir() {
			mode |= 0o110 | fs.ModeSetgid
		}
	}
	isLink := mode&fs.ModeSymlink != 0
	if uid == int(before.Uid) && gid == int(before.Gid) && (isLink || mode == info.Mode()) {
		return nil
	}
	if err := os.Lchown(name, uid, gid); err != nil || isLink {
		return err
	}
	if !info.IsDir() {
		mode &^= fs.ModeSetuid | fs.ModeSetgid
	}
	return os.Chmod(name, mode)
}

// A model makes one random tree.
type model struct {
	t            *testing.T
	rng          *rand.Rand
	dir, outside string
	files        []string
	mounts       []string
}

var modelNames = []string{"a", "b", "..c", "\xff\n", "lost+found", "*", strings.Repeat("long", 63)}

func (m *model) grow(in string, depth int) {
	for _, name := range modelNames {
		if m.rng.IntN(3) > 0 {
			continue
		}
		path := in + "/" + name
		switch kind := m.rng.IntN(10); {
		case kind < 4 && depth < 4:
			require.NoError(m.t, os.Mkdir(m.dir+"/"+path, 0o755))
			m.grow(path, depth+1)
			m.dress(path)
		case kind == 4:
			m.mount(m.dir + "/" + path)
		default:
			m.file(path, kind)
		}
	}
}

func (m *model) file(path string, kind int) {
	at := m.dir + "/" + path
	var err error
	switch kind {
	case 5:
		err = os.Symlink([]string{m.outside + "/file", "nowhere", ".", "/"}[m.rng.IntN(4)], at)
	case 6:
		err = unix.Mkfifo(at, 0o600)
	case 7:
		err = unix.Mknod(at, unix.S_IFSOCK|0o600, 0)
	case 8:
		if len(m.files) > 0 {
			require.NoError(m.t, os.Link(m.dir+"/"+m.files[m.rng.IntN(len(m.files))], at))
			return
		}
		fallthrough
	default:
		m.files = append(m.files, path)
		err = os.WriteFile(at, []byte("x"), 0o600)
	}
	require.NoError(m.t, err)
	m.dress(path)
}

// dress sets random owners and a random mode.
func (m *model) dress(path string) {
	at := m.dir + "/" + path
	uid, gid := m.rng.IntN(3), m.rng.IntN(3)
	mode := m.rng.Uint32() & 0o7777
	if m.rng.IntN(3) == 0 {
		mode |= 0o770
	}
	require.NoError(m.t, os.Lchown(at, uid, gid))
	if info, err := os.Lstat(at); err == nil && info.Mode()&fs.ModeSymlink == 0 {
		require.NoError(m.t, unix.Chmod(at, mode))
	}
}

func (m *model) mount(at string) {
	require.NoError(m.t, os.Mkdir(at, 0o755))
	require.NoError(m.t, unix.Mount("tmpfs", at, "tmpfs", 0, ""))
	testbed.Fill(m.t, at, "canary")
	m.mounts = append(m.mounts, at)
}
