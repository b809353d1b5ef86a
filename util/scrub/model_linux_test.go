package scrub

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

// TestModel empties random trees, one for each seed, and compares the remaining entries
// with the expected ones.
func TestModel(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		replaceUnlinkat(t, func(fd int, name string, flags int) error {
			if strings.HasPrefix(name, "stuck") {
				return unix.EPERM
			}
			return unix.Unlinkat(fd, name, flags)
		})
		for seed := range uint64(testbed.UpTo(150, 5000)) {
			testModel(t, fmt.Sprintf("%s/%d", dir, seed), seed)
		}
	})
}

func testModel(t *testing.T, dir string, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 0))
	m := &model{t: t, rng: rng, dir: dir + "/root", outside: dir + "/outside"}
	testbed.Fill(t, dir, "root/", "outside/file", "outside/sub/file")
	o := Options{Workers: 1 + rng.IntN(4), Keep: []string{"keep"}}
	m.grow("", 0, false)
	before := list(t, m.outside)

	_, err := open(t, m.dir).Empty(t.Context(), o)
	if m.reasons == nil {
		require.NoError(t, err, "seed %d", seed)
	} else {
		var left *UnremovableError
		require.ErrorAs(t, err, &left, "seed %d", seed)
		require.Equal(t, len(m.reasons), left.Count, "seed %d: %v", seed, err)
		require.Subset(t, m.reasons, paths(t, err), "seed %d", seed)
	}
	slices.Sort(m.remain)
	require.ElementsMatch(t, slices.Compact(m.remain), list(t, m.dir), "seed %d", seed)
	require.Equal(t, before, list(t, m.outside), "seed %d", seed)
	for _, name := range m.mounts {
		require.NoError(t, unix.Unmount(m.dir+"/"+name, unix.MNT_DETACH))
	}
}

// A model makes a random tree and records the entries that must stay, and why.
type model struct {
	t               *testing.T
	rng             *rand.Rand
	dir, outside    string
	remain, reasons []string
	mounts          []string
}

var modelNames = []string{"a", "b", "keep", "stuck", "lost+found", "\xff\n", ".nfs1", ".snapshot", "*"}

// grow fills a directory. The content of a safe directory stays.
func (m *model) grow(in string, depth int, safe bool) {
	for _, name := range modelNames {
		if m.rng.IntN(3) > 0 {
			continue
		}
		path := in + name
		inRoot := in == ""
		safe := safe || inRoot && name == "keep"
		switch kind := m.rng.IntN(8); {
		case kind < 3 && depth < 4:
			m.directory(path, inRoot, depth, safe)
		case kind == 3 && !safe:
			m.mount(path)
		default:
			m.file(path, kind)
			if safe {
				m.stay(path)
			} else if strings.HasPrefix(name, "stuck") {
				m.stay(path)
				m.reasons = append(m.reasons, path)
			}
		}
	}
}

func (m *model) directory(path string, inRoot bool, depth int, safe bool) {
	require.NoError(m.t, os.Mkdir(m.dir+"/"+path, 0o755))
	before := len(m.reasons)
	m.grow(path+"/", depth+1, safe)
	switch name := path[strings.LastIndexByte(path, '/')+1:]; {
	case safe || inRoot && name == lostAndFound:
		m.stay(path)
	case name == "stuck" && len(m.reasons) == before:
		m.stay(path)
		m.reasons = append(m.reasons, path)
	}
}

func (m *model) file(path string, kind int) {
	at := m.dir + "/" + path
	var err error
	switch kind {
	case 4:
		err = os.Symlink(m.outside, at)
	case 5:
		err = os.Link(m.outside+"/file", at)
	case 6:
		err = unix.Mkfifo(at, 0o600)
	default:
		err = os.WriteFile(at, []byte("x"), 0o600)
	}
	require.NoError(m.t, err)
}

// mount mounts a tmpfs with a canary, which must stay.
func (m *model) mount(path string) {
	require.NoError(m.t, os.Mkdir(m.dir+"/"+path, 0o755))
	require.NoError(m.t, unix.Mount("tmpfs", m.dir+"/"+path, "tmpfs", 0, ""))
	testbed.Fill(m.t, m.dir+"/"+path, "canary")
	m.mounts = append(m.mounts, path)
	m.reasons = append(m.reasons, path)
	m.stay(path + "/canary")
}

// stay records an entry that must stay, and the directories above it.
func (m *model) stay(path string) {
	for {
		m.remain = append(m.remain, path)
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			return
		}
		path = path[:i]
	}
}
