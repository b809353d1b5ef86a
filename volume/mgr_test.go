package volume

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A stub is a plugin as far as the register sees one.
type stub struct {
	name    string
	kind    func(*Spec) bool
	initErr error
	inits   atomic.Int32
	asked   atomic.Int32
}

func (s *stub) Init(context.Context, VolumeHost) error            { s.inits.Add(1); return s.initErr }
func (s *stub) GetPluginName() string                             { return s.name }
func (s *stub) GetVolumeName(spec *Spec) (string, error)          { return spec.Name(), nil }
func (s *stub) CanSupport(spec *Spec) bool                        { s.asked.Add(1); return s.kind != nil && s.kind(spec) }
func (s *stub) NewMounter(*Spec, *v1.Pod) (Mounter, error)        { return nil, ErrNotSupported }
func (s *stub) NewUnmounter(string, types.UID) (Unmounter, error) { return nil, ErrNotSupported }
func (s *stub) ConstructVolumeSpec(context.Context, string, string) (ReconstructedVolume, error) {
	return ReconstructedVolume{}, ErrNotSupported
}

func isNFS(spec *Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.NFS != nil
}
func isLocal(spec *Spec) bool {
	return spec.PersistentVolume != nil && spec.PersistentVolume.Spec.Local != nil
}

func nfsSpec() *Spec {
	return NewSpecFromPersistentVolume(pvOf(v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{}}), false)
}

func newMgr(t *testing.T, plugins ...VolumePlugin) *VolumePluginMgr {
	t.Helper()
	m, err := NewVolumePluginMgr(t.Context(), newHost(t), plugins...)
	require.NoError(t, err)
	return m
}

func names(plugins []VolumePlugin) []string {
	var names []string
	for _, p := range plugins {
		names = append(names, p.GetPluginName())
	}
	return names
}

func TestFindPlugin(t *testing.T) {
	nfs := &stub{name: "example.com/nfs", kind: isNFS}
	local := &stub{name: "example.com/local", kind: isLocal}
	m := newMgr(t, nfs, local)

	found, err := m.FindPluginBySpec(nfsSpec())
	require.NoError(t, err)
	require.Same(t, nfs, found)
	found, err = m.FindPluginByName("example.com/local")
	require.NoError(t, err)
	require.Same(t, local, found)
	require.Equal(t, []string{"example.com/local", "example.com/nfs"}, names(m.Plugins()))
}

func TestFindNoPlugin(t *testing.T) {
	m := newMgr(t, &stub{name: "example.com/local", kind: isLocal})
	_, err := m.FindPluginBySpec(nfsSpec())
	require.ErrorIs(t, err, ErrNoPluginMatched)
	require.EqualError(t, err, `persistent volume "pv" of kind nfs: no volume plugin matched`)
	_, err = m.FindPluginBySpec(NewSpecFromVolume(&v1.Volume{Name: "v"}))
	require.EqualError(t, err, `volume "v" without a source: no volume plugin matched`)
	_, err = m.FindPluginByName("example.com/nfs")
	require.ErrorIs(t, err, ErrNoPluginMatched)
	require.EqualError(t, err, `plugin "example.com/nfs": no volume plugin matched`)
}

func TestFindSeveralPlugins(t *testing.T) {
	m := newMgr(t, &stub{name: "b.com/nfs", kind: isNFS}, &stub{name: "a.com/nfs", kind: isNFS})
	_, err := m.FindPluginBySpec(nfsSpec())
	var several *MultiplePluginsError
	require.ErrorAs(t, err, &several)
	require.Equal(t, []string{"a.com/nfs", "b.com/nfs"}, several.Names)
}

func TestNoPluginSeesAnInvalidSpec(t *testing.T) {
	p := &stub{name: "example.com/any", kind: func(spec *Spec) bool { return spec.Name() != "" }}
	m := newMgr(t, p)
	for _, spec := range []*Spec{nil, {}, NewSpecFromVolume(&v1.Volume{Name: ".."}), NewSpecFromPersistentVolume(nil, false)} {
		_, err := m.FindPluginBySpec(spec)
		require.Error(t, err)
		_, _, err = FindBySpec[PersistentVolumePlugin](m, spec)
		require.Error(t, err)
	}
	require.Zero(t, p.asked.Load())
}

func TestRegisterRefuses(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		plugins []VolumePlugin
		field   string
	}{
		"nil":          {[]VolumePlugin{nil}, "plugins[0]"},
		"nil pointer":  {[]VolumePlugin{(*stub)(nil)}, "plugins[0]"},
		"no name":      {[]VolumePlugin{&stub{}}, "plugins[0]"},
		"no namespace": {[]VolumePlugin{&stub{name: "nfs"}}, "plugins[0]"},
		"two slashes":  {[]VolumePlugin{&stub{name: "a/b/c"}}, "plugins[0]"},
		"tilde":        {[]VolumePlugin{&stub{name: "a~b/c"}}, "plugins[0]"},
		"blank":        {[]VolumePlugin{&stub{name: "example.com/a b"}}, "plugins[0]"},
		"no domain":    {[]VolumePlugin{&stub{name: "Example_com/nfs"}}, "plugins[0]"},
		"dots":         {[]VolumePlugin{&stub{name: "../.."}}, "plugins[0]"},
		"taken":        {[]VolumePlugin{&stub{name: "example.com/taken"}}, "plugins[0]"},
		"twice":        {[]VolumePlugin{&stub{name: "a/b"}, &stub{name: "a/b"}}, "plugins[1]"},
		"init fails":   {[]VolumePlugin{&stub{name: "a/b"}, &stub{name: "a/c", initErr: broken}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMgr(t, &stub{name: "example.com/taken"})
			err := m.Register(t.Context(), test.plugins...)
			if test.field == "" {
				require.ErrorIs(t, err, broken)
				require.ErrorContains(t, err, `"a/c"`)
			} else {
				requireFieldError(t, err, test.field)
			}
			require.Equal(t, []string{"example.com/taken"}, names(m.Plugins()), "all or none")
		})
	}
}

func TestRegisterChecksAllNamesBeforeAnyInit(t *testing.T) {
	good := &stub{name: "example.com/good"}
	m := newMgr(t)
	require.Error(t, m.Register(t.Context(), good, &stub{name: "bad"}))
	require.Zero(t, good.inits.Load())
	_, err := m.FindPluginByName(good.name)
	require.ErrorIs(t, err, ErrNoPluginMatched)
	require.NoError(t, m.Register(t.Context(), good))
	require.EqualValues(t, 1, good.inits.Load())
}

func TestNewVolumePluginMgrNeedsAHost(t *testing.T) {
	for _, host := range []VolumeHost{nil, (*Host)(nil)} {
		m, err := NewVolumePluginMgr(t.Context(), host)
		requireFieldError(t, err, "host")
		require.Nil(t, m)
	}
}

func TestPluginsIsACopy(t *testing.T) {
	m := newMgr(t, &stub{name: "a/b"}, &stub{name: "a/c"})
	m.Plugins()[0] = nil
	require.Equal(t, []string{"a/b", "a/c"}, names(m.Plugins()))
}

// Lookups see each registration as a whole, also concurrent ones.
func TestRegisterWhileLookingUp(t *testing.T) {
	const batches, size = 50, 4
	m := newMgr(t, &stub{name: "example.com/nfs", kind: isNFS})
	var registering, reading sync.WaitGroup
	done := make(chan struct{})
	for range 4 {
		reading.Go(func() {
			for more := true; more; {
				select {
				case <-done:
					more = false
				default:
				}
				found, err := m.FindPluginBySpec(nfsSpec())
				if err != nil || found.GetPluginName() != "example.com/nfs" {
					t.Errorf("found %v, %v", found, err)
				}
				if n := len(m.Plugins()); n%size != 1 {
					t.Errorf("%d plugins: a part of a batch is seen", n)
				}
			}
		})
	}
	for batch := range batches {
		registering.Go(func() {
			var plugins []VolumePlugin
			for i := range size {
				plugins = append(plugins, &stub{name: fmt.Sprintf("example.com/p-%d-%d", batch, i)})
			}
			if err := m.Register(t.Context(), plugins...); err != nil {
				t.Error(err)
			}
			if _, err := m.FindPluginByName(plugins[0].GetPluginName()); err != nil {
				t.Error(err)
			}
		})
	}
	registering.Wait()
	close(done)
	reading.Wait()
	require.Len(t, m.Plugins(), batches*size+1)
}

// One name, many takers: one gets it, and only its Init is called.
func TestRegisterOneNameConcurrently(t *testing.T) {
	m := newMgr(t)
	var wg sync.WaitGroup
	var taken, inits atomic.Int32
	for range 16 {
		wg.Go(func() {
			p := &stub{name: "example.com/one"}
			if m.Register(t.Context(), p) == nil {
				taken.Add(1)
			}
			inits.Add(p.inits.Load())
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, taken.Load())
	require.EqualValues(t, 1, inits.Load())
}

func BenchmarkFindPluginBySpec(b *testing.B) {
	host, err := NewHost(context.Background(), b.TempDir())
	require.NoError(b, err)
	m, err := NewVolumePluginMgr(context.Background(), host, &stub{name: "a/nfs", kind: isNFS}, &stub{name: "a/local", kind: isLocal})
	require.NoError(b, err)
	spec := nfsSpec()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := m.FindPluginBySpec(spec); err != nil {
				b.Error(err)
			}
		}
	})
}
