package atomicdir

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNames: the names of a set are valid together, or the error names the reason.
func TestNames(t *testing.T) {
	long := strings.Repeat("n", maxComponent)
	require.NoError(t, CheckName("a/b"))
	require.Error(t, CheckName("a/../b"))
	for _, test := range []struct {
		names  []string
		reason string // empty: the names are valid
	}{
		{names: nil},
		{names: []string{"a", "b"}},
		{names: []string{"a/b/c", "a/b/d", "a/e", "f"}},
		{names: []string{"a./b", ".hidden", "a/..b", "a/...", ".", ".a"}[:4]},
		{names: []string{"./a", "b//c", "d/"}},
		{names: []string{long, long + "/" + long}[:1]},
		{names: []string{"a\nb", "\xff", "!", "-"}},
		{names: []string{""}, reason: "empty"},
		{names: []string{"."}, reason: "not a file's"},
		{names: []string{"./"}, reason: "not a file's"},
		{names: []string{"/a"}, reason: "not relative"},
		{names: []string{".."}, reason: `begins with ".."`},
		{names: []string{"..data"}, reason: `begins with ".."`},
		{names: []string{"./..data"}, reason: `begins with ".."`},
		{names: []string{"...", "a"}, reason: `begins with ".."`},
		{names: []string{"../a"}, reason: `begins with ".."`},
		{names: []string{"a/../b"}, reason: `has ".."`},
		{names: []string{"a/.."}, reason: "not a file's"},
		{names: []string{"a\x00b"}, reason: "must not contain NUL"},
		{names: []string{long + "n"}, reason: "a component is longer than 255 bytes"},
		{names: []string{"a/" + long + "n"}, reason: "a component is longer than 255 bytes"},
		{names: []string{strings.Repeat("a/", 2048) + "a"}, reason: "longer than 4096 bytes"},
		{names: []string{"a", "./a"}, reason: "two names of one file"},
		{names: []string{"a", "a/b"}, reason: "a file, and a directory of others"},
		{names: []string{"a/b/c/d", "a/b"}, reason: "a file, and a directory of others"},
		{names: []string{"a/b", "a/b/", "a"}, reason: "two names of one file"},
	} {
		_, err := arrange(named(test.names...), nil)
		if test.reason == "" {
			require.NoError(t, err, "%q", test.names)
			continue
		}
		var refused *InputError
		require.ErrorAs(t, err, &refused, "%.40q", test.names)
		require.Equal(t, test.reason, refused.Reason, "%.40q", test.names)
		require.Equal(t, "name", refused.Field)
		require.Less(t, len(err.Error()), 1024)
	}
}

func named(names ...string) map[string]File {
	files := map[string]File{}
	for _, name := range names {
		files[name] = File{}
	}
	return files
}

func TestArrange(t *testing.T) {
	l, err := arrange(named("a/b/c", "!/d", "a/e", "f", "z/"), nil)
	require.NoError(t, err)
	require.Equal(t, []directory{
		{path: "", files: []string{"f", "z"}, dirs: []string{"!", "a"}},
		{path: "!", files: []string{"d"}},
		{path: "a", files: []string{"e"}, dirs: []string{"b"}},
		{path: "a/b", files: []string{"c"}},
	}, l.dirs)
	l.addLinks()
	require.Equal(t, map[string]string{"!": "..data/!", "a": "..data/a", "f": "..data/f", "z": "..data/z"}, l.seen.links)
	require.Len(t, l.files, 5)
}

func FuzzNames(f *testing.F) {
	for _, seed := range [][2]string{
		{"a", "b"}, {"a", "a/b"}, {"a//b", "a/b"}, {"../a", "..data"}, {"./..data", "a/../../b"},
		{"a\x00", "\xff\n"}, {"a./b", "a/."}, {"...", "a/..."}, {strings.Repeat("a/", 2048), "."},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		l, err := arrange(named(a, b), nil)
		if err != nil {
			var refused *InputError
			require.ErrorAs(t, err, &refused)
			require.Less(t, len(err.Error()), 2048)
			return
		}
		for name := range l.files {
			require.True(t, fs.ValidPath(strings.ToValidUTF8(name, "?")), "%q", name)
			require.False(t, strings.HasPrefix(name, ".."), "%q", name)
			require.NotEqual(t, ".", name)
			require.NotContains(t, name, "\x00")
		}
		made := map[string]bool{}
		for _, d := range l.dirs {
			require.True(t, d.path == "" || made[d.path], "%q has no directory above it", d.path)
			for _, sub := range d.dirs {
				made[path.Join(d.path, sub)] = true
			}
			for _, base := range d.files {
				require.NotContains(t, base, "/")
				require.Contains(t, l.files, path.Join(d.path, base))
				require.False(t, made[path.Join(d.path, base)])
			}
		}
		require.Len(t, made, len(l.dirs)-1)
	})
}

func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	big := 1 << 40
	for field, test := range map[string]struct {
		dir   string
		files map[string]File
		o     Options
	}{
		"dir":             {dir: "relative"},
		"name":            {dir: dir, files: named("..")},
		"Mode of a":       {dir: dir, files: map[string]File{"a": {Mode: Perm(fs.ModeSetuid | 0o755)}}},
		"UID of a":        {dir: dir, files: map[string]File{"a": {UID: &big}}},
		"Options.Mode":    {dir: dir, o: Options{Mode: Perm(0o1777)}},
		"Options.DirMode": {dir: dir, o: Options{DirMode: Perm(fs.ModeSticky)}},
		"Options.UID":     {dir: dir, o: Options{UID: &big}},
		"Options.GID":     {dir: dir, o: Options{GID: &big}},
	} {
		changed, err := Write(t.Context(), test.dir, test.files, test.o)
		var refused *InputError
		require.ErrorAs(t, err, &refused, field)
		require.Equal(t, field, refused.Field)
		require.False(t, changed)
	}
	for _, bad := range []string{"", ".", "/", "//", "a/b", "/a/../b", "/a\x00b"} {
		_, err := Write(t.Context(), bad, nil, Options{})
		var refused *InputError
		require.ErrorAs(t, err, &refused, "%q", bad)
	}
}

// TestNoSecretIsShown: no format verb prints a file's content.
func TestNoSecretIsShown(t *testing.T) {
	files := map[string]File{"a": {Data: []byte("hush")}}
	for _, value := range []any{files, files["a"], []File{files["a"]}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			text := fmt.Sprintf(verb, value)
			for _, secret := range []string{"hush", "104", "68", "0x68"} {
				require.NotContains(t, text, secret, verb)
			}
		}
	}
	text, err := json.Marshal(files)
	require.NoError(t, err)
	require.Equal(t, `{"a":"file of 4 bytes"}`, string(bytes.TrimSpace(text)))
}

func TestEndedBefore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Write(ctx, t.TempDir(), named("a"), Options{})
	require.ErrorIs(t, err, context.Canceled)
}
