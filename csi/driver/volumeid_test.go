package driver

import (
	"maps"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestParseID(t *testing.T) {
	source := `{"local":{"path":"/mnt/a"}}`
	id := newVolumeID("pvc-1", source)
	require.Equal(t, id, parseID(id.text))
	require.True(t, id.isOf(source))
	require.False(t, id.isOf(source+" "))
	longest := newVolumeID(volumeName(strings.Repeat("a", 63)), source)
	require.LessOrEqual(t, len(longest.text), longestField)
	require.Equal(t, longest, parseID(longest.text))

	for _, static := range []string{
		"pvc-1", "v1-", "v1-0123456789abcdef", "v1-0123456789abcdef-", "v1-0123456789ABCDEF-pvc-1", "v1-0123456789abcdef-../x", "v1-0123456789abcdef-A",
		"v1-0123456789abcdef-" + strings.Repeat("a", 64), "v2-0123456789abcdef-pvc-1", "v1-0123456789abcdef-static-" + strings.Repeat("0", 40),
	} {
		id := parseID(static)
		require.Empty(t, id.digest, static)
		require.True(t, strings.HasPrefix(id.name, staticPrefix), static)
		require.True(t, id.isOf(source), static)
	}
}

// TestVolumeNames: names of requests that are not names of volumes, or that look hashed, are hashed.
func TestVolumeNames(t *testing.T) {
	require.Equal(t, "pvc-1", volumeName("pvc-1"))
	hashed := volumeName("A")
	for _, requested := range []string{"A", "", "a/b", strings.Repeat("a", 64), hashed, staticPrefix + "a"} {
		name := volumeName(requested)
		require.NotEqual(t, requested, name)
		require.True(t, isVolumeName(name), name)
	}
	require.NotEqual(t, hashed, volumeName(hashed))
}

func FuzzVolumeID(f *testing.F) {
	for _, seed := range []string{"", "v1-0123456789abcdef-pvc-1", "v1--", "../../etc", "\xff\x00", strings.Repeat("v1-", 64)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := requireID(text)
		if err != nil {
			require.ErrorAs(t, err, new(*field.Error))
			return
		}
		require.True(t, utf8.ValidString(text))
		require.LessOrEqual(t, len(text), longestField)
		require.Equal(t, text, id.text)
		require.NoError(t, volume.ValidatePathComponent(field.NewPath("name"), id.name))
		require.NotContains(t, fileName(text), "/")
		if id.digest != "" {
			require.Equal(t, text, idPrefix+id.digest+"-"+id.name)
		}
	})
}

func FuzzVolumeName(f *testing.F) {
	f.Add("pvc-1", "PVC-1")
	f.Add("volume-"+strings.Repeat("0", 40), "static-"+strings.Repeat("0", 40))
	f.Fuzz(func(t *testing.T, a, b string) {
		require.True(t, isVolumeName(volumeName(a)))
		require.Equal(t, a == b, volumeName(a) == volumeName(b))
		id := newVolumeID(volumeName(a), b)
		require.Equal(t, id, parseID(id.text))
	})
}

func TestContextSource(t *testing.T) {
	source := `{"nfs":{"server":"s","path":"/a"}}`
	got, err := contextSource(newContext(source))
	require.NoError(t, err)
	require.Equal(t, source, got)
	got, err = contextSource(map[string]string{"other": "value", ephemeralKey: "false"})
	require.NoError(t, err)
	require.Empty(t, got)

	invalid := map[string]map[string]string{
		"no version":      {SourceKey: source},
		"another version": {VersionKey: "2", SourceKey: source},
		"no source":       {VersionKey: "1"},
		"empty":           {VersionKey: "1", SourceKey: "{}"},
		"null":            {VersionKey: "1", SourceKey: "null"},
		"two sources":     {VersionKey: "1", SourceKey: `{"nfs":{"server":"s","path":"/a"},"local":{"path":"/a"}}`},
		"unknown field":   {VersionKey: "1", SourceKey: `{"local":{"path":"/a","mode":7}}`},
		"trailing text":   {VersionKey: "1", SourceKey: source + "{}"},
		"not JSON":        {VersionKey: "1", SourceKey: "nfs"},
		"large":           {VersionKey: "1", SourceKey: `{"local":{"path":"/` + strings.Repeat("a", maxSource) + `"}}`},
		"deep":            {VersionKey: "1", SourceKey: strings.Repeat("[", maxSource)},
		"ephemeral":       {VersionKey: "1", SourceKey: source, ephemeralKey: "true"},
	}
	for name, volumeContext := range invalid {
		_, err := contextSource(volumeContext)
		require.ErrorAs(t, err, new(*field.Error), name)
		require.Less(t, len(err.Error()), 1024, name)
	}
}

func FuzzVolumeContext(f *testing.F) {
	f.Add("1", `{"local":{"path":"/a"}}`, "")
	f.Add("1", `{"csi":{"driver":"a","volumeHandle":"b","volumeAttributes":{"a":"b"}}}`, "true")
	f.Add("2", `{"nfs":{}}{}`, "x")
	f.Fuzz(func(t *testing.T, version, source, ephemeral string) {
		written := map[string]string{VersionKey: version, SourceKey: source, ephemeralKey: ephemeral}
		before := maps.Clone(written)
		got, err := contextSource(written)
		require.Equal(t, before, written)
		if err != nil {
			require.ErrorAs(t, err, new(*field.Error))
			require.Less(t, len(err.Error()), 2048)
			return
		}
		require.Equal(t, source, got)
		require.Equal(t, contextVersion, version)
		pv, err := described{parseID("id"), got}.persistentVolume()
		require.NoError(t, err)
		again, err := encodeSource(pv.Spec.PersistentVolumeSource)
		if err == nil { // JSON of the same source may be longer than the limit
			_, err = parseSource(field.NewPath("source"), again)
			require.NoError(t, err)
		}
	})
}
