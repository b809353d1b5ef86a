package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A wrapper adds nothing and hides the abilities of the wrapped mounter.
type wrapper struct{ mount.Interface }

func (w *wrapper) Unwrap() mount.Interface { return w.Interface }

// An opaque wrapper does not return the wrapped mounter.
type opaque struct{ mount.Interface }

// uncomparable panics if it is compared or used as the key of a map.
type uncomparable struct {
	mount.Interface
	_ []int
}

func (u uncomparable) Unwrap() mount.Interface { return u.Interface }

func TestAs(t *testing.T) {
	able := mounttest.NewFake(mount.Config{})
	circle := &wrapper{}
	circle.Interface = circle
	for name, test := range map[string]struct {
		mounter mount.Interface
		want    bool
	}{
		"able":            {able, true},
		"wrapped":         {&wrapper{able}, true},
		"wrapped twice":   {&wrapper{&wrapper{able}}, true},
		"not comparable":  {uncomparable{Interface: able}, true},
		"opaque":          {opaque{able}, false},
		"wrapped opaque":  {&wrapper{&opaque{able}}, false},
		"circle":          {circle, false},
		"nil":             {nil, false},
		"nil able":        {(*mounttest.Fake)(nil), false},
		"nil wrapper":     {(*wrapper)(nil), false},
		"wrapped nil":     {&wrapper{}, false},
		"wrapped nil ptr": {&wrapper{(*mounttest.Fake)(nil)}, false},
	} {
		ability, ok := mount.As[mount.DirectoryMounter](test.mounter)
		require.Equal(t, test.want, ok, name)
		require.Equal(t, test.want, ability != nil, name)
	}
	found, ok := mount.As[*mounttest.Fake](&wrapper{able})
	require.True(t, ok)
	require.Same(t, able, found)
}
