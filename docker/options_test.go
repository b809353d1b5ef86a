package docker

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestOptions: each option is checked before anything has changed.
func TestOptions(t *testing.T) {
	id := func(n int64) *int64 { return &n }
	for text, want := range map[string]options{
		`{}`:                {},
		`{"size": "10Gi"}`:  {bytes: 10 << 30},
		`{"size": "1000"}`:  {bytes: 1000},
		`{"size": "1.5Gi"}`: {bytes: 3 << 29},
		`{"mode": "0750", "uid": "0", "gid": "5"}`: {mode: id(0o750), uid: id(0), gid: id(5)},
		`{"ro": ""}`:                   {readOnly: true},
		`{"ro": "false"}`:              {},
		`{"share": "a:/b", "ro": "1"}`: {share: "a:/b", readOnly: true},
		`{"o": "hard,nfsvers=4.1"}`:    {mount: []string{"hard", "nfsvers=4.1"}},
		`{"pathPattern": "x"}`:         {parameters: map[string]string{"pathPattern": "x"}},
	} {
		var written map[string]string
		require.NoError(t, json.Unmarshal([]byte(text), &written))
		o, err := parseOptions(written)
		require.NoError(t, err, text)
		require.Equal(t, want, o, text)
	}
	many := map[string]string{}
	for i := range mostOptions + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for _, test := range []struct {
		field   string
		written map[string]string
	}{
		{"options[size]", map[string]string{"size": "100m"}},
		{"options[size]", map[string]string{"size": "10g"}},
		{"options[size]", map[string]string{"size": "1n"}},
		{"options[size]", map[string]string{"size": "0.5"}},
		{"options[size]", map[string]string{"size": "8Ei"}},
		{"options[mode]", map[string]string{"mode": "+755"}},
		{"options[uid]", map[string]string{"uid": "+5"}},
		{"options[x]", map[string]string{"x": "a\u2028b"}},
		{"options[size]", map[string]string{"size": "0"}},
		{"options[size]", map[string]string{"size": "-1"}},
		{"options[size]", map[string]string{"size": ""}},
		{"options[size]", map[string]string{"size": "1e99999999"}},
		{"options[size]", map[string]string{"size": "1Gi", "share": "a"}},
		{"options[mode]", map[string]string{"mode": "888"}},
		{"options[mode]", map[string]string{"mode": "4755"}},
		{"options[mode]", map[string]string{"mode": "-1"}},
		{"options[mode]", map[string]string{"mode": "755", "ro": "true"}},
		{"options[uid]", map[string]string{"uid": "-1"}},
		{"options[uid]", map[string]string{"uid": "root"}},
		{"options[uid]", map[string]string{"uid": "1", "share": "a"}},
		{"options[gid]", map[string]string{"gid": "99999999999"}},
		{"options[gid]", map[string]string{"gid": "1", "ro": "1"}},
		{"options[ro]", map[string]string{"ro": "perhaps"}},
		{"options[share]", map[string]string{"share": ""}},
		{"options[x]", map[string]string{"share": "a", "x": ""}},
		{"options", map[string]string{"": "x"}},
		{"options", map[string]string{"a\n": "x"}},
		{"options", map[string]string{strings.Repeat("k", 64): "x"}},
		{"options[x]", map[string]string{"x": "a\x00"}},
		{"options[x]", map[string]string{"x": strings.Repeat("v", 4097)}},
		{"options", many},
	} {
		_, err := parseOptions(test.written)
		var failed *field.Error
		require.ErrorAs(t, err, &failed, "%v", test.written)
		require.Equal(t, test.field, failed.Field, "%v", err)
		require.LessOrEqual(t, len(err.Error()), 512)
	}
}

func FuzzParseOptions(f *testing.F) {
	f.Add("size", "10Gi")
	f.Add("o", `context="a,b",hard`)
	f.Add("mode", "0750")
	f.Fuzz(func(t *testing.T, key, value string) {
		o, err := parseOptions(map[string]string{key: value})
		if err == nil {
			require.GreaterOrEqual(t, o.bytes, int64(0))
			return
		}
		require.ErrorAs(t, err, new(*field.Error))
	})
}
