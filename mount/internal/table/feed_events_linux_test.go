package table

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// event returns an event as the kernel writes it, with records of any length.
func event(mask uint64, records ...[]byte) []byte {
	all := slices.Concat(records...)
	b := binary.NativeEndian.AppendUint32(nil, uint32(eventHead+len(all)))
	b = append(b, unix.FANOTIFY_METADATA_VERSION, 0)
	b = binary.NativeEndian.AppendUint16(b, eventHead)
	b = binary.NativeEndian.AppendUint64(b, mask)
	b = binary.NativeEndian.AppendUint64(b, ^uint64(0)>>32) // no file, process 0
	return append(b, all...)
}

func eventRecord(kind byte, id uint64) []byte {
	b := binary.NativeEndian.AppendUint16([]byte{kind, 0}, recordMount)
	return binary.NativeEndian.AppendUint64(append(b, 0, 0, 0, 0), id)
}

func TestParseEvents(t *testing.T) {
	attach, detach := event(unix.FAN_MNT_ATTACH, eventRecord(mountRecord, 7)), event(unix.FAN_MNT_DETACH, eventRecord(mountRecord, 1<<40))
	for _, test := range []struct {
		name string
		text []byte
		want []Event
		lost bool
	}{
		{"nothing", nil, nil, false},
		{"two", slices.Concat(attach, detach), []Event{{Mount: 7}, {Mount: 1 << 40, Gone: true}}, false},
		{"moved", event(unix.FAN_MNT_ATTACH|unix.FAN_MNT_DETACH, eventRecord(mountRecord, 7)), []Event{{Mount: 7, Moved: true}}, false},
		{"overflow", slices.Concat(attach, event(unix.FAN_Q_OVERFLOW)), []Event{{Mount: 7}}, true},
		{"another record before", event(unix.FAN_MNT_ATTACH, eventRecord(9, 1), eventRecord(mountRecord, 7)), []Event{{Mount: 7}}, false},
		{"no record", event(unix.FAN_MNT_ATTACH), nil, true},
		{"unknown record", event(1, eventRecord(9, 1)), nil, true},
		{"record without end", event(unix.FAN_MNT_ATTACH, []byte{mountRecord, 0, 99, 99}), nil, true},
		{"record without length", event(unix.FAN_MNT_ATTACH, make([]byte, 16)), nil, true},
	} {
		got, lost, err := parseEvents(nil, test.text)
		require.NoError(t, err, test.name)
		require.Equal(t, test.want, got, test.name)
		require.Equal(t, test.lost, lost, test.name)
	}
	shorter, older, longer, headless := slices.Clone(attach), slices.Clone(attach), slices.Clone(attach), slices.Clone(attach)
	binary.NativeEndian.PutUint32(shorter, eventHead-1)
	older[4] = 2
	binary.NativeEndian.PutUint32(longer, 999)
	binary.NativeEndian.PutUint16(headless[6:], 0)
	for _, text := range [][]byte{shorter, older, longer, headless, attach[:10], append(slices.Clone(attach), 1)} {
		_, _, err := parseEvents(nil, text)
		require.ErrorIs(t, err, errEvents)
	}
}

func FuzzParseEvents(f *testing.F) {
	f.Add(event(unix.FAN_MNT_ATTACH, eventRecord(mountRecord, 7)))
	f.Add(append(event(unix.FAN_Q_OVERFLOW), event(1, eventRecord(9, 1))...))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, text []byte) {
		all, _, err := parseEvents(nil, text)
		if err == nil {
			require.LessOrEqual(t, len(all), len(text)/eventHead)
		}
	})
}
