package disk

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// identified is a path that leads to one device, and to another one later.
type identified struct {
	Devices
	Handle
	was, now Info
}

// Info implements Handle.
func (i identified) Info() Info { return i.was }

// Identify implements Devices.
func (i identified) Identify(string) (Info, error) { return i.now, nil }

// TestMediumChanged: a medium that came later is another device, at the same number.
func TestMediumChanged(t *testing.T) {
	was := Info{Path: "/dev/x", Number: 7, Identity: Identity{Boot: "boot", Sequence: 3}}
	other, another, later := was, was, was
	other.Number, another.Identity.Sequence, later.Identity.Boot = 8, 4, ""
	for _, test := range []struct {
		now  Info
		want error
	}{{was, nil}, {later, nil}, {other, ErrSwapped}, {another, ErrSwapped}} {
		i := identified{was: was, now: test.now}
		d := Device{disks: &Disks{devices: i}, handle: i}
		require.ErrorIs(t, d.CheckNode(t.Context()), test.want)
	}
}
