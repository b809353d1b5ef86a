package initrd

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBytes: the archive is that of cpio(5), byte for byte.
func TestBytes(t *testing.T) {
	var got bytes.Buffer
	require.NoError(t, Write(&got, []Entry{
		{Name: "dev", Mode: Directory},
		{Name: "dev/console", Mode: Console, Major: 5, Minor: 1},
		{Name: "init", Mode: Executable, Data: []byte("hello")},
	}))
	want := "070701" + "00000001" + "000041ed" + "00000000" + "00000000" + "00000001" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000000" + "00000004" + "00000000" + "dev\x00" + "\x00\x00" +
		"070701" + "00000002" + "00002180" + "00000000" + "00000000" + "00000001" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000005" + "00000001" + "0000000c" + "00000000" + "dev/console\x00" + "\x00\x00" +
		"070701" + "00000003" + "000081ed" + "00000000" + "00000000" + "00000001" + "00000000" +
		"00000005" + "00000000" + "00000000" + "00000000" + "00000000" + "00000005" + "00000000" + "init\x00" + "\x00" +
		"hello" + "\x00\x00\x00" +
		"070701" + "00000000" + "00000000" + "00000000" + "00000000" + "00000001" + "00000000" +
		"00000000" + "00000000" + "00000000" + "00000000" + "00000000" + "0000000b" + "00000000" + "TRAILER!!!\x00" + "\x00\x00\x00"
	require.Equal(t, want, got.String())
}

// TestRoundTrip: names and data of every length modulo four come back.
func TestRoundTrip(t *testing.T) {
	var entries []Entry
	for name := range 5 {
		for data := range 9 {
			entries = append(entries, Entry{
				Name: strings.Repeat("n", name+1) + fmt.Sprint(data),
				Mode: Executable,
				Data: bytes.Repeat([]byte{'x'}, data),
			})
		}
	}
	var archive bytes.Buffer
	require.NoError(t, Write(&archive, entries))
	require.Equal(t, entries, read(t, archive.Bytes()))
}

// read is the inverse of Write for files.
func read(t *testing.T, archive []byte) (entries []Entry) {
	t.Helper()
	cut := func(from, length int) (piece []byte, next int) {
		return archive[from : from+length], (from + length + 3) / 4 * 4
	}
	for at := 0; ; {
		var mode uint32
		var size, nameSize int
		require.Equal(t, "070701", string(archive[at:at+6]))
		number := func(field int, to any) {
			_, err := fmt.Sscanf(string(archive[at+6+8*field:at+14+8*field]), "%x", to)
			require.NoError(t, err)
		}
		number(1, &mode)
		number(6, &size)
		number(11, &nameSize)
		header, next := cut(at, 110+nameSize)
		name := strings.TrimSuffix(string(header[110:]), "\x00")
		if name == trailer {
			require.Len(t, archive, next)
			return entries
		}
		data, after := cut(next, size)
		entries = append(entries, Entry{Name: name, Mode: mode, Data: bytes.Clone(data)})
		if size == 0 {
			entries[len(entries)-1].Data = []byte{}
		}
		at = after
	}
}

// full is a disk with so much room left.
type full int

var errFull = errors.New("disk full")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > int(*f) {
		return 0, errFull
	}
	*f -= full(len(p))
	return len(p), nil
}

func TestWriteFails(t *testing.T) {
	entries := []Entry{{Name: "init", Mode: Executable, Data: []byte("hello")}}
	var all bytes.Buffer
	require.NoError(t, Write(&all, entries))
	for room := range all.Len() {
		disk := full(room)
		require.ErrorIs(t, Write(&disk, entries), errFull, room)
	}
}
