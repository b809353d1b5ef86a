package volume

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Names that must never become part of a path.
var badComponents = []string{
	"", ".", "..", "/", "a/b", "../a", "a/..", "a\x00b", "\x00", strings.Repeat("a", 256),
}

func requireFieldError(t *testing.T, err error, name string) {
	t.Helper()
	var refused *field.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, name, refused.Field)
	require.Less(t, len(err.Error()), 512, "hostile text fills the log")
}

func TestValidatePathComponent(t *testing.T) {
	path := field.NewPath("name")
	for _, bad := range badComponents {
		requireFieldError(t, ValidatePathComponent(path, bad), "name")
	}
	for _, good := range []string{"a", "...", "a b", "-a", ".a", "a~b", strings.Repeat("a", 255), "\xff", "ä"} {
		require.NoError(t, ValidatePathComponent(path, good))
	}
}

func TestRefusalNamesFieldAndValue(t *testing.T) {
	err := ValidatePathComponent(field.NewPath("podUID"), "a/\n"+strings.Repeat("b", 200))
	require.EqualError(t, err, `podUID: Invalid value: "a/\n`+strings.Repeat("b", 77)+"..."+strings.Repeat("b", 80)+
		`": must not contain "/" or NUL`)
}

func TestSpecValidate(t *testing.T) {
	nfs := &v1.NFSVolumeSource{}
	for name, test := range map[string]struct {
		spec  *Spec
		field string // empty: valid
	}{
		"nil":         {nil, "spec"},
		"empty":       {&Spec{}, "spec"},
		"both":        {&Spec{Volume: &v1.Volume{Name: "v"}, PersistentVolume: pvOf(v1.PersistentVolumeSource{})}, "spec"},
		"volume":      {NewSpecFromVolume(&v1.Volume{Name: "v"}), ""},
		"pv":          {NewSpecFromPersistentVolume(pvOf(v1.PersistentVolumeSource{NFS: nfs}), false), ""},
		"two sources": {NewSpecFromPersistentVolume(pvOf(v1.PersistentVolumeSource{NFS: nfs, Local: &v1.LocalVolumeSource{}}), false), "spec"},
		"no pv name":  {NewSpecFromPersistentVolume(&v1.PersistentVolume{}, false), "spec.persistentVolume.metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.spec.Validate()
			if test.field == "" {
				require.NoError(t, err)
				return
			}
			requireFieldError(t, err, test.field)
		})
	}
	for _, bad := range badComponents {
		err := NewSpecFromVolume(&v1.Volume{Name: bad}).Validate()
		requireFieldError(t, err, "spec.volume.name")
	}
}

func TestEscapeQualifiedName(t *testing.T) {
	for name, escaped := range map[string]string{
		"kubernetes.io/nfs":          "kubernetes.io~nfs",
		"kubernetes.io/local-volume": "kubernetes.io~local-volume",
		"nfs":                        "nfs",
	} {
		got, err := EscapeQualifiedName(name)
		require.NoError(t, err)
		require.Equal(t, escaped, got)
		back, err := UnescapeQualifiedName(escaped)
		require.NoError(t, err)
		require.Equal(t, name, back)
	}
}

func TestEscapeQualifiedNameRefuses(t *testing.T) {
	for _, bad := range []string{
		"", ".", "..", "/", "a/", "/a", "a//b", "a/b/c", "a~b", "a~b/c", "~", "a/\x00", "a/..", "../a",
		"example.com/" + strings.Repeat("a", 255),
	} {
		escaped, err := EscapeQualifiedName(bad)
		requireFieldError(t, err, "name")
		require.Empty(t, escaped)
	}
}

func TestUnescapeQualifiedNameRefuses(t *testing.T) {
	for _, bad := range []string{
		"", ".", "..", "a/b", "~", "a~", "~a", "a~b~c", "a\x00", strings.Repeat("a", 256),
	} {
		name, err := UnescapeQualifiedName(bad)
		requireFieldError(t, err, "escaped")
		require.Empty(t, name)
	}
}
