package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestCreateAgain: equal options change nothing, and other ones are an error that names the key.
func TestCreateAgain(t *testing.T) {
	r := newFakeRig(t)
	options := map[string]string{"size": "1Gi", "pattern": "some value"}
	require.NoError(t, r.create("data", options))
	before := r.content()
	require.NoError(t, r.create("data", options))
	for key, options := range map[string]map[string]string{
		"size":    {"size": "2Gi", "pattern": "some value"},
		"pattern": {"size": "1Gi", "pattern": "other"},
		"more":    {"size": "1Gi", "pattern": "some value", "more": "x"},
		"empty":   nil,
	} {
		err := r.create("data", options)
		require.ErrorContains(t, err, "the volume exists with another value", key)
		if options != nil {
			require.ErrorContains(t, err, "options["+key+"]")
		}
		require.NotContains(t, err.Error(), "some value")
	}
	require.Equal(t, before, r.content())
	require.Equal(t, 1, r.plugin.Calls(volumetest.Provision))
}

// TestInterruptedCreate: a volume whose creation may have begun is completed by Create, Mount or Remove; one that could
// not be created is gone.
func TestInterruptedCreate(t *testing.T) {
	for name, test := range map[string]struct {
		err  error
		next string
		left bool // the volume exists after the failed call
	}{
		"uncertain, Create": {volume.ErrUncertain, "create", true},
		"uncertain, Mount":  {volume.ErrUncertain, "mount", true},
		"uncertain, Remove": {volume.ErrUncertain, "remove", true},
		"final":             {errors.New("no"), "create", false},
		"transient":         {volume.ErrTransient, "create", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t)
			r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: test.err, Times: 1})
			require.Error(t, r.create("data", nil))
			require.Equal(t, test.left, len(r.names()) == 1)
			r.restart()
			if test.left {
				require.Equal(t, "creating", r.status("data", "state"))
			}
			switch test.next {
			case "create":
				require.NoError(t, r.create("data", nil))
				require.Nil(t, r.status("data", "state"))
			case "mount":
				_, err := r.mount("data", "a")
				require.NoError(t, err)
				require.Nil(t, r.status("data", "state"))
			case "remove":
				r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
				require.Error(t, r.remove("data"))
				require.NoError(t, r.remove("data"))
				require.Empty(t, r.records())
				require.Equal(t, 1, r.plugin.Calls(volumetest.Delete))
			}
		})
	}
	t.Run("cannot be created, Remove", func(t *testing.T) {
		r := newFakeRig(t)
		r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
		require.Error(t, r.create("data", nil))
		r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: errors.New("no"), Times: 1})
		require.NoError(t, r.remove("data"))
		require.Empty(t, r.records())
	})
}

// TestInterruptedRemove: a volume whose deletion may have begun is not mounted again, and Remove continues. Nothing was
// deleted after a transient error.
func TestInterruptedRemove(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		isReady bool
	}{"uncertain": {volume.ErrUncertain, false}, "final": {errors.New("no"), false}, "transient": {volume.ErrTransient, true}} {
		t.Run(name, func(t *testing.T) {
			r := newFakeRig(t)
			require.NoError(t, r.create("data", nil))
			r.plugin.Inject(volumetest.Fault{Method: volumetest.Delete, Err: test.err, Times: 1})
			require.Error(t, r.remove("data"))
			require.NotEmpty(t, r.status("data", "error"))
			r.restart()
			_, err := r.mount("data", "a")
			if test.isReady {
				require.NoError(t, err)
				require.NoError(t, r.unmount("data", "a"))
			} else {
				require.ErrorContains(t, err, "being removed")
				require.ErrorContains(t, r.create("data", nil), "being removed")
				require.Equal(t, "deleting", r.status("data", "state"))
			}
			if !test.isReady { // the deletion has begun
				r.plugin.Inject(volumetest.Fault{Method: volumetest.Delete, Err: volume.ErrTransient, Times: 1})
				require.Error(t, r.remove("data"))
				_, err := r.mount("data", "a")
				require.ErrorContains(t, err, "being removed")
			}
			require.NoError(t, r.remove("data"))
			require.Empty(t, r.records())
		})
	}
}

// TestUnprovisionable: storage that may exist is not forgotten if the plugin refuses its request by now.
func TestUnprovisionable(t *testing.T) {
	r := newFakeRig(t)
	r.plugin.Inject(volumetest.Fault{Method: volumetest.Provision, Err: volume.ErrUncertain, Times: 1})
	require.Error(t, r.create("data", nil))
	r.stop()
	before := r.config.Plugin
	r.config.Plugin = refusing{r.plugin}
	r.start()
	require.Error(t, r.remove("data"))
	require.Len(t, r.records(), 1)
	r.stop()
	r.config.Plugin = before
	r.start()
	require.NoError(t, r.remove("data"))
	require.Equal(t, 1, r.plugin.Calls(volumetest.Delete))
}

// TestGlobalStorage: storage that another machine may use is not deleted because this one cannot mount it, but by Remove.
func TestGlobalStorage(t *testing.T) {
	r := newFakeRig(t, func(c *Config) { c.Scope = ScopeGlobal })
	r.stop()
	r.config.Plugin = unmountable{r.plugin}
	r.start()
	require.ErrorContains(t, r.create("data", nil), "cannot mount")
	require.Zero(t, r.plugin.Calls(volumetest.Delete))
	require.Equal(t, "creating", r.status("data", "state"))
	require.NoError(t, r.remove("data"))
	require.Equal(t, 1, r.plugin.Calls(volumetest.Delete))
	require.Empty(t, r.records())
}

// An unmountable plugin has volumes for other machines.
type unmountable struct{ *volumetest.FakePlugin }

func (unmountable) NewMounter(*volume.Spec, *v1.Pod) (volume.Mounter, error) {
	return nil, errors.New("cannot mount")
}

// A refusing plugin provisions nothing.
type refusing struct{ *volumetest.FakePlugin }

func (refusing) NewProvisioner(volume.VolumeOptions) (volume.Provisioner, error) {
	return nil, errors.New("refused")
}

// TestStorageName: names of storage are components of paths and names of objects, and differ where volumes do.
func TestStorageName(t *testing.T) {
	host := func(node, identity string) *driver {
		host, err := volume.NewHost(t.Context(), t.TempDir(), volume.WithNodeName(types.NodeName(node)))
		require.NoError(t, err)
		return &driver{config: Config{Host: host, Scope: ScopeLocal}, store: &store{identity: identity}}
	}
	a, b, other := host("a", "1"), host("b", "1"), host("a", "2")
	seen := map[string]string{}
	for _, name := range []string{"data", "Data", "da_ta", "da-ta", "da.ta", strings.Repeat("a", 128), strings.Repeat("a", 127), "0"} {
		for node, d := range map[string]*driver{"a": a, "b": b, "another a": other} {
			storage := d.storageName(name)
			require.Regexp(t, `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`, storage)
			require.LessOrEqual(t, len(storage), 63)
			require.Empty(t, seen[storage], "%s on %s", name, node)
			seen[storage] = name
		}
	}
	a.config.Scope, b.config.Scope = ScopeGlobal, ScopeGlobal
	require.Equal(t, a.storageName("data"), b.storageName("data"))
}

// TestShares: the forms of shares.
func TestShares(t *testing.T) {
	source, err := NFSShare("[::1]:/a/b")
	require.NoError(t, err)
	require.Equal(t, &v1.NFSVolumeSource{Server: "[::1]", Path: "/a/b"}, source.NFS)
	source, err = LocalShare("/a")
	require.NoError(t, err)
	require.Equal(t, &v1.LocalVolumeSource{Path: "/a"}, source.Local)
	for _, share := range []string{"", "a", ":/a", "server", "server:a"} {
		_, err := NFSShare(share)
		require.ErrorContains(t, err, "options[share]", share)
	}
	_, err = LocalShare("a")
	require.ErrorContains(t, err, "options[share]")
	r := newFakeRig(t)
	require.ErrorContains(t, r.create("data", map[string]string{"share": "x"}), "the driver has no shares")
	require.Empty(t, r.names())
}
