package nfs

import (
	"errors"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FuzzSource checks that an accepted source keeps the rules, is in its canonical form, and
// can be parsed back from the mount table.
func FuzzSource(f *testing.F) {
	for _, seed := range [][2]string{
		{"nas", "/export"}, {"NAS.example", "//a//b/"}, {"2001:DB8::1", "/"}, {"[fe80::1%eth0]", "/a b"},
		{"::ffff:10.0.0.1", "/a:/b"}, {"10.0.0.1", `/a\040`}, {"-nas", "/a/../b"}, {"nas,ro", "/a\x00"}, {"", ""},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, server, path string) {
		s, err := parseSource(here, &v1.NFSVolumeSource{Server: server, Path: path})
		if err != nil {
			require.ErrorAs(t, err, new(*field.Error))
			return
		}
		requireRules(t, s)
		again, err := parseSource(here, &v1.NFSVolumeSource{Server: s.server, Path: s.path})
		require.NoError(t, err)
		require.Equal(t, s, again)
		m := mounttest.NewFake(mount.Config{})
		target := t.TempDir()
		require.NoError(t, m.Mount(t.Context(), mount.Request{Source: s.String(), Target: target, FSType: "nfs"}))
		table, err := m.List(t.Context())
		require.NoError(t, err)
		again, err = parseMountSource(table[len(table)-1].Source)
		require.NoError(t, err)
		require.Equal(t, s, again)
	})
}

// requireRules checks the rules of a source independently of the parser.
func requireRules(t *testing.T, s source) {
	t.Helper()
	require.NotEmpty(t, s.server)
	require.NotEqual(t, byte('-'), s.server[0])
	require.False(t, strings.ContainsFunc(s.server, unicode.IsSpace))
	require.False(t, strings.ContainsFunc(s.server+s.path, unicode.IsControl))
	require.False(t, strings.ContainsAny(s.server, ",/[]\x00"))
	require.True(t, strings.HasPrefix(s.path, "/"))
	require.NotContains(t, strings.Split(s.path, "/"), "..")
	require.False(t, strings.Contains(s.path, "//"))
	require.True(t, !strings.Contains(s.server, ":") || strings.Count(s.server, ":") >= 2)
}

// FuzzOptions checks that accepted options are of the permitted kinds, however they are
// spread over the field and the annotation, and that a mounter accepts them, too.
func FuzzOptions(f *testing.F) {
	for _, seed := range [][2]string{
		{"hard\ntimeo=600", ""}, {"vers=4.1", "proto=tcp,soft"}, {"ro\nrw", ""}, {"bind", "addr=1.2.3.4"},
		{"nfsvers=4\nminorversion=2", "noexec, _netdev"}, {"sec=krb5:sys\nnconnect=16", ""}, {"", "x-a=b"}, {"bg", `context="a:s0:c1,c2",hard`}, {"fscontext=\"\ncontext=\"a:s0,bg,sloppy,x\"", "hard"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, list, annotation string) {
		spec := pvWith(strings.Split(list, "\n")...)
		spec.PersistentVolume.Annotations = map[string]string{v1.MountOptionAnnotation: annotation}
		w, err := parseOptions(spec)
		if err != nil {
			require.ErrorAs(t, err, new(*field.Error))
			return
		}
		for _, options := range [][]string{w.forKernel(), w.forProgram()} {
			req := mount.Request{Source: "nas:/x", Target: "/target", FSType: "nfs", Options: options}
			parsed, err := req.Parse(mount.Allow{SUID: true, Dev: true, Context: true})
			require.NoError(t, err)
			require.ElementsMatch(t, parsed.Data, optionlist.Split(strings.Join(parsed.Data, ",")), "as a program reads them")
			for _, option := range parsed.Data {
				require.Empty(t, check(option), option)
				require.Equal(t, []string{option}, optionlist.Split(option))
				require.NotContains(t, []string{"addr", "clientaddr", "mounthost", "source", "bg"}, keyOf(option))
			}
			again, err := parseOptions(pvWith(options...))
			require.NoError(t, err)
			require.ElementsMatch(t, options, again.forProgram())
		}
	})
}

// FuzzSpec checks for every specification that the plugin either names its fault, or mounts
// it and finds it again.
func FuzzSpec(f *testing.F) {
	f.Add("pv", "nas", "/export", "hard", true, false)
	f.Add("v", "2001:db8::1", "//a/", "", false, true)
	f.Add("..", "nas\n", "/a/../b", "rw", true, true)
	f.Fuzz(func(t *testing.T, name, server, path, option string, readOnly, inline bool) {
		written := &v1.NFSVolumeSource{Server: server, Path: path, ReadOnly: readOnly}
		spec := volume.NewSpecFromVolume(&v1.Volume{Name: name, VolumeSource: v1.VolumeSource{NFS: written}})
		if !inline {
			spec = volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
				ObjectMeta: metav1.ObjectMeta{Name: name},
				Spec: v1.PersistentVolumeSpec{
					PersistentVolumeSource: v1.PersistentVolumeSource{NFS: written}, MountOptions: strings.Fields(option),
				},
			}, false)
		}
		host, err := volume.NewHost(t.Context(), t.TempDir())
		require.NoError(t, err)
		plugin := New(Config{Mounter: mounttest.NewFake(mount.Config{Allow: mount.Allow{SUID: true, Dev: true}})})
		require.NoError(t, plugin.Init(t.Context(), host))
		mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "pod"}})
		if err != nil {
			require.ErrorAs(t, err, new(*field.Error))
			return
		}
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		found, err := plugin.ConstructVolumeSpec(t.Context(), name, mounter.GetPath())
		require.NoError(t, err)
		require.Equal(t, spec.IsReadOnly(), found.Spec.IsReadOnly())
		want, err := plugin.GetVolumeName(spec)
		require.NoError(t, err)
		have, err := plugin.GetVolumeName(found.Spec)
		require.NoError(t, err)
		require.Equal(t, want, have)
		unmounter, err := plugin.NewUnmounter(name, "pod")
		require.NoError(t, err)
		require.NoError(t, errors.Join(unmounter.TearDown(t.Context()), unmounter.TearDown(t.Context())))
	})
}
