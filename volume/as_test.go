package volume

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
)

type persistent struct{ stub }

func (*persistent) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
}

// A wrapper adds nothing and hides the abilities of the wrapped plugin.
type wrapper struct{ VolumePlugin }

func (w *wrapper) Unwrap() VolumePlugin { return w.VolumePlugin }

// An opaque wrapper does not return the wrapped plugin.
type opaque struct{ VolumePlugin }

func TestAs(t *testing.T) {
	plain := &stub{name: "a/plain"}
	able := &persistent{stub{name: "a/able"}}
	circle := &wrapper{}
	circle.VolumePlugin = circle
	for name, test := range map[string]struct {
		plugin VolumePlugin
		want   bool
	}{
		"able":            {able, true},
		"wrapped":         {&wrapper{able}, true},
		"wrapped twice":   {&wrapper{&wrapper{able}}, true},
		"plain":           {plain, false},
		"wrapped plain":   {&wrapper{plain}, false},
		"opaque":          {&opaque{able}, false},
		"nil":             {nil, false},
		"nil pointer":     {(*stub)(nil), false},
		"wrapped nil":     {&wrapper{}, false},
		"circle":          {circle, false},
		"not comparable":  {uncomparable{VolumePlugin: able}, true},
		"nil able":        {(*persistent)(nil), false},
		"wrapped nil ptr": {&wrapper{(*persistent)(nil)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ability, ok := As[PersistentVolumePlugin](test.plugin)
			require.Equal(t, test.want, ok)
			require.Equal(t, test.want, ability != nil)
		})
	}
	found, ok := As[*persistent](&wrapper{able})
	require.True(t, ok)
	require.Same(t, able, found)
}

// uncomparable panics if it is compared or used as the key of a map.
type uncomparable struct {
	VolumePlugin
	_ []int
}

func (u uncomparable) Unwrap() VolumePlugin { return u.VolumePlugin }

func TestFindAbility(t *testing.T) {
	able := &persistent{stub{name: "a/able", kind: isNFS}}
	plain := &stub{name: "a/plain", kind: isLocal}
	m := newMgr(t, &wrapper{able}, plain)

	ability, ok, err := FindBySpec[PersistentVolumePlugin](m, nfsSpec())
	require.NoError(t, err)
	require.True(t, ok)
	require.Same(t, able, ability)

	_, ok, err = FindByName[PersistentVolumePlugin](m, "a/plain")
	require.NoError(t, err, "a plugin without the ability is no error")
	require.False(t, ok)

	_, ok, err = FindByName[PersistentVolumePlugin](m, "a/missing")
	require.ErrorIs(t, err, ErrNoPluginMatched)
	require.False(t, ok)
}

// An attachable attaches some volumes, or fails to know.
type attachable struct {
	stub
	can bool
	err error
}

func (a *attachable) NewAttacher() (Attacher, error)                      { return nil, ErrNotSupported }
func (a *attachable) NewDetacher() (Detacher, error)                      { return nil, ErrNotSupported }
func (a *attachable) CanAttach(context.Context, *Spec) (bool, error)      { return a.can, a.err }
func (a *attachable) NewDeviceMounter() (DeviceMounter, error)            { return nil, ErrNotSupported }
func (a *attachable) NewDeviceUnmounter() (DeviceUnmounter, error)        { return nil, ErrNotSupported }
func (a *attachable) CanDeviceMount(context.Context, *Spec) (bool, error) { return a.can, a.err }
func (a *attachable) GetDeviceMountRefs(context.Context, string) ([]string, error) {
	return nil, ErrNotSupported
}

func TestFindAttachablePlugin(t *testing.T) {
	for name, test := range map[string]struct {
		plugin VolumePlugin
		ok     bool
		err    error
	}{
		"attachable":  {&attachable{stub: stub{name: "a/b", kind: isNFS}, can: true}, true, nil},
		"not this":    {&attachable{stub: stub{name: "a/b", kind: isNFS}}, false, nil},
		"not known":   {&attachable{stub: stub{name: "a/b", kind: isNFS}, can: true, err: ErrTransient}, false, ErrTransient},
		"no ability":  {&stub{name: "a/b", kind: isNFS}, false, nil},
		"other kinds": {&stub{name: "a/b", kind: isLocal}, false, ErrNoPluginMatched},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMgr(t, test.plugin)
			found, ok, err := m.FindAttachablePluginBySpec(t.Context(), nfsSpec())
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.ok, ok)
			require.Equal(t, test.ok, found != nil)
			device, ok, err := m.FindDeviceMountablePluginBySpec(t.Context(), nfsSpec())
			require.ErrorIs(t, err, test.err)
			require.Equal(t, test.ok, ok)
			require.Equal(t, test.ok, device != nil)
		})
	}
}
