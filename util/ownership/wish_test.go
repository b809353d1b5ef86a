package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func id(n int64) *int64 { return &n }

func TestChange(t *testing.T) {
	group, both := Options{Group: id(7)}, Options{User: id(5), Group: id(7)}
	only := Options{User: id(5)}
	read := Options{Group: id(7), ReadOnly: true}
	for _, test := range []struct {
		name  string
		o     Options
		state state
		want  change
	}{
		{"a file", group, state{other, 1, 2, 0o604}, change{true, -1, 7, true, 0o664}},
		{"its group is right", group, state{other, 1, 7, 0o604}, change{false, -1, -1, true, 0o664}},
		{"its mode is right", group, state{other, 1, 2, 0o777}, change{true, -1, 7, false, 0o777}},
		{"all is right", group, state{other, 1, 7, 0o1660}, change{false, -1, -1, false, 0o1660}},
		{"to be read", read, state{other, 1, 2, 0o200}, change{true, -1, 7, true, 0o640}},
		{"a directory", group, state{directory, 1, 2, 0o1700}, change{true, -1, 7, true, 0o3770}},
		{"one to be read", read, state{directory, 1, 2, 0o700}, change{true, -1, 7, true, 0o2750}},
		{"one without the bit", group, state{directory, 1, 7, 0o770}, change{false, -1, -1, true, 0o2770}},
		{"a link", group, state{symlink, 1, 2, 0o777}, change{true, -1, 7, false, 0o777}},
		{"an old link", group, state{symlink, 1, 2, 0o000}, change{true, -1, 7, false, 0}},
		{"a user and a group", both, state{other, 1, 2, 0o600}, change{true, 5, 7, true, 0o660}},
		{"no group, no mode", only, state{other, 1, 2, 0o600}, change{true, 5, -1, false, 0o600}},
		{"a directory's mode as well", only, state{directory, 1, 2, 0o4700}, change{true, 5, -1, false, 0o4700}},
		{"set-user-ID goes with the owner", only, state{other, 1, 2, 0o4755}, change{true, 5, -1, true, 0o755}},
		{"and with the group", group, state{other, 1, 2, 0o6775}, change{true, -1, 7, true, 0o775}},
		{"and with a mode", group, state{other, 1, 7, 0o4755}, change{false, -1, -1, true, 0o775}},
		{"and stays with none", group, state{other, 1, 7, 0o4775}, change{false, -1, -1, false, 0o4775}},
		{"the last ID", Options{Group: id(maxID)}, state{other, 1, maxID, 0o660}, change{false, -1, -1, false, 0o660}},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, test.o.change(test.state))
		})
	}
}

// TestChangeEnds: a changed state needs no further change.
func TestChangeEnds(t *testing.T) {
	for _, o := range []Options{{Group: id(7)}, {User: id(5)}, {User: id(5), Group: id(7), ReadOnly: true}} {
		for mode := range uint32(0o10000) {
			for _, k := range []kind{other, directory, symlink} {
				s := state{k, 1, 2, mode}
				c := o.change(s)
				after := state{k, s.uid, s.gid, s.mode}
				if c.uid >= 0 {
					after.uid = uint32(c.uid)
				}
				if c.gid >= 0 {
					after.gid = uint32(c.gid)
				}
				if c.chmod {
					after.mode = c.mode
				}
				require.True(t, o.change(after).none(), "%+v", s)
			}
		}
	}
}
