package nfs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var here = field.NewPath("nfs")

// TestServers: servers are names or addresses, in one spelling each.
func TestServers(t *testing.T) {
	long := strings.Repeat(strings.Repeat("a", 60)+".", 4) + strings.Repeat("b", 9)
	for written, want := range map[string]string{
		"nas":                   "nas",
		"NAS.Example.COM":       "nas.example.com",
		"nas.example.com.":      "nas.example.com.",
		"my_nas-1":              "my_nas-1",
		"1nas":                  "1nas",
		"10.0.0.1":              "10.0.0.1",
		"2001:DB8:0::01":        "2001:db8::1",
		"[2001:db8::1]":         "2001:db8::1",
		"::ffff:10.0.0.1":       "10.0.0.1",
		"fe80::1%eth0":          "fe80::1%eth0",
		"[fe80::1%2]":           "fe80::1%2",
		"xn--bcher-kva.exam":    "xn--bcher-kva.exam",
		long:                    long,
		strings.Repeat("a", 63): strings.Repeat("a", 63),
	} {
		s, err := parseSource(here, &v1.NFSVolumeSource{Server: written, Path: "/x"})
		require.NoError(t, err, written)
		require.Equal(t, want, s.server)
		again, err := parseMountSource(s.String())
		require.NoError(t, err, s.String())
		require.Equal(t, s, again)
	}
}

func TestServersRefused(t *testing.T) {
	for _, written := range []string{
		"", "-nas", "nas-", " nas", "na s", "nas\n", "nas\x00", "nas\t", "nas,ro", "nas:", "nas:/x", "a/b", "/nas",
		".", "..", "nas..example", ".nas", "bücher.example", "[nas]", "[10.0.0.1]", "[::1", "::1]", "[]", "[::1]x",
		"2001:db8::x", "1:2", "fe80::1%", "fe80::1%eth0/1", "fe80::1%eth 0", "fe80::1%e,ro", "fe80::1%-e",
		"10.0.0", "10.0.0.256", "010.0.0.1", "127.1", "1", "0x7f.1", "nas.0x1", "10.0.0.1.", "nas.1",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "b", "$(id)", "nas;id", "nas\u202e", "nas\xff",
	} {
		_, err := parseSource(here, &v1.NFSVolumeSource{Server: written, Path: "/x"})
		requireField(t, err, "nfs.server", written)
	}
}

// TestPaths: paths have one spelling each, which the mount table leads back to.
func TestPaths(t *testing.T) {
	for written, want := range map[string]string{
		"/": "/", "/export": "/export", "//export///a/./b/": "/export/a/b", "/a b": "/a b", "/a:/b": "/a:/b",
		"/a,b": "/a,b", "/...": "/...", "/..a/b..": "/..a/b..", "/\xff": "/\xff", `/a\040`: `/a\040`, "/-o": "/-o",
	} {
		for _, server := range []string{"nas", "2001:db8::1"} {
			s, err := parseSource(here, &v1.NFSVolumeSource{Server: server, Path: written})
			require.NoError(t, err, written)
			require.Equal(t, want, s.path)
			require.Equal(t, server+want, s.volumeName())
			again, err := parseMountSource(s.String())
			require.NoError(t, err)
			require.Equal(t, s, again)
		}
	}
}

func TestPathsRefused(t *testing.T) {
	for _, written := range []string{
		"", "export", "./export", "/a/../b", "/..", "/a/..", "/a\x00b", "/a\nb", "/a\tb", "/a\x7f", "/a\u0085",
		"/" + strings.Repeat("a", longestPath),
	} {
		_, err := parseSource(here, &v1.NFSVolumeSource{Server: "nas", Path: written})
		requireField(t, err, "nfs.path", written)
	}
}

func TestMountSourcesRefused(t *testing.T) {
	for _, text := range []string{"", "nas", "nas:export", ":/x", "[::1:/x", "[nas]:/x", "/dev/sda", "nas:/../x"} {
		_, err := parseMountSource(text)
		require.Error(t, err, text)
	}
}

// requireField checks that an error names the field, and does not repeat all that a
// hostile value says.
func requireField(t *testing.T, err error, name, written string) {
	t.Helper()
	var refused *field.Error
	require.ErrorAs(t, err, &refused, "%q", written)
	require.Equal(t, name, refused.Field, "%q", written)
	require.Less(t, len(err.Error()), 512)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "\x00")
}

// Operations on the exports of one server wait for that server, however it is written.
func TestBackendName(t *testing.T) {
	p := New(Config{})
	name := func(server string) string {
		spec := volume.NewSpecFromVolume(&v1.Volume{Name: "a", VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: "/x"}}})
		name, err := p.GetBackendName(spec)
		require.NoError(t, err)
		return name
	}
	require.Equal(t, name("server.example.com"), name("SERVER.example.com"))
	require.NotEqual(t, name("server.example.com"), name("other.example.com"))
	_, err := p.GetBackendName(nil)
	require.Error(t, err)
}
