package beneath

import (
	"encoding/binary"
	"maps"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// direntOf returns an entry as getdents64(2) encodes it.
func direntOf(e Entry, inode uint64) []byte {
	buf := make([]byte, (nameAt+len(e.Name)+1+7)&^7)
	binary.NativeEndian.PutUint64(buf, inode)
	binary.NativeEndian.PutUint64(buf[nextAt:], uint64(e.Next))
	binary.NativeEndian.PutUint16(buf[lengthAt:], uint16(len(buf)))
	buf[kindAt] = e.Kind
	copy(buf[nameAt:], e.Name)
	return buf
}

// A shelf is a directory whose entries are named for their offsets.
type shelf struct {
	kinds  []uint8
	inodes []uint64
	places []int64 // the offset after each entry
	begin  int64
}

func newShelf(r *rand.Rand) shelf {
	kinds := []uint8{unix.DT_REG, unix.DT_REG, unix.DT_REG, unix.DT_LNK, unix.DT_DIR, unix.DT_UNKNOWN}
	s := shelf{begin: r.Int64N(1000)}
	for range r.IntN(40) {
		s.kinds = append(s.kinds, kinds[r.IntN(len(kinds))])
		s.inodes = append(s.inodes, r.Uint64N(100))
		s.places = append(s.places, 1000+r.Int64()) // in no order, as on ext4
	}
	return s
}

func (s shelf) listing() (l Listing) {
	for i, kind := range s.kinds {
		l.rest = append(l.rest, direntOf(Entry{Name: strconv.Itoa(i), Kind: kind, Next: s.places[i]}, s.inodes[i])...)
	}
	return l
}

// behind returns the entries after an offset.
func (s shelf) behind(place int64) map[string]bool {
	after := map[string]bool{}
	found := place == s.begin
	for i := range s.kinds {
		if found {
			after[strconv.Itoa(i)] = true
		}
		found = found || s.places[i] == place
	}
	return after
}

// TestOrder: reading on after any entry, as after a descent into it, misses no entry, and
// repeats none from before the last directory. After a directory, or the last entry, it
// repeats none at all. Entries between directories come in the order of inodes.
func TestOrder(t *testing.T) {
	var o Order // shared, as leftovers of one sort must not matter to the next
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		s := newShelf(r)
		l := s.listing()
		o.Sort(&l, s.begin)
		todo := s.behind(s.begin)
		since := maps.Clone(todo) // entries unread at the last directory
		last := uint64(0)
		for e, ok := l.Take(); ok; e, ok = l.Take() {
			require.True(t, todo[e.Name], "once")
			delete(todo, e.Name)
			i, err := strconv.Atoi(e.Name)
			require.NoError(t, err)
			require.Equal(t, s.kinds[i], e.Kind)
			require.Subset(t, s.behind(e.Next), todo)
			require.Subset(t, since, s.behind(e.Next))
			if e.Kind == unix.DT_DIR || e.Kind == unix.DT_UNKNOWN {
				require.Equal(t, s.behind(e.Next), todo)
				since, last = maps.Clone(todo), 0
				continue
			}
			require.LessOrEqual(t, last, s.inodes[i])
			last = s.inodes[i]
			if len(todo) == 0 {
				require.Empty(t, s.behind(e.Next))
			}
		}
		require.Empty(t, todo)
	}
}
