package apitest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
)

func TestJSONPatch(t *testing.T) {
	tests := map[string]struct{ document, patch, want string }{
		"add to a list":         {`{"a":[1,2]}`, `[{"op":"add","path":"/a/1","value":9}]`, `{"a":[1,9,2]}`},
		"append":                {`{"a":[1]}`, `[{"op":"add","path":"/a/-","value":2},{"op":"add","path":"/a/2","value":3}]`, `{"a":[1,2,3]}`},
		"add an existing field": {`{"a":1}`, `[{"op":"add","path":"/a","value":2}]`, `{"a":2}`},
		"escaped names":         {`{"a/b":1,"~":2}`, `[{"op":"remove","path":"/a~1b"},{"op":"remove","path":"/~0"}]`, `{}`},
		"move in a list":        {`{"a":[1,2,3]}`, `[{"op":"move","from":"/a/0","path":"/a/2"}]`, `{"a":[2,3,1]}`},
		"a copy is independent": {`{"a":{"x":1}}`, `[{"op":"copy","from":"/a","path":"/b"},{"op":"add","path":"/b/x","value":2}]`, `{"a":{"x":1},"b":{"x":2}}`},
		"replace the document":  {`{"a":1}`, `[{"op":"replace","path":"","value":{"b":2}}]`, `{"b":2}`},
		"large numbers":         {`{"a":9007199254740993}`, `[{"op":"test","path":"/a","value":9007199254740993}]`, `{"a":9007199254740993}`},
		"null":                  {`{}`, `[{"op":"add","path":"/a","value":null},{"op":"test","path":"/a","value":null}]`, `{"a":null}`},
		"nothing":               {`{"a":1}`, `[]`, `{"a":1}`},

		"missing parent":      {`{}`, `[{"op":"add","path":"/a/b","value":1}]`, ""},
		"missing field":       {`{}`, `[{"op":"replace","path":"/a","value":1}]`, ""},
		"beyond a list":       {`{"a":[]}`, `[{"op":"add","path":"/a/1","value":1}]`, ""},
		"negative index":      {`{"a":[1]}`, `[{"op":"remove","path":"/a/-1"}]`, ""},
		"index with zeros":    {`{"a":[1,2]}`, `[{"op":"remove","path":"/a/01"}]`, ""},
		"end of a list":       {`{"a":[1]}`, `[{"op":"remove","path":"/a/-"}]`, ""},
		"field of a number":   {`{"a":1}`, `[{"op":"add","path":"/a/b","value":1}]`, ""},
		"relative path":       {`{"a":1}`, `[{"op":"remove","path":"a"}]`, ""},
		"unknown operation":   {`{"a":1}`, `[{"op":"some","path":"/a"}]`, ""},
		"no value":            {`{"a":1}`, `[{"op":"add","path":"/a"}]`, ""},
		"move into itself":    {`{"a":{"b":1}}`, `[{"op":"move","from":"/a","path":"/a/b"}]`, ""},
		"failed test":         {`{"a":1}`, `[{"op":"test","path":"/a","value":2}]`, ""},
		"test of another one": {`{"a":1}`, `[{"op":"test","path":"/b","value":1}]`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := applyJSONPatch([]byte(test.document), []byte(test.patch))
			if test.want == "" {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(got))
		})
	}
}

// FuzzJSONPatch: no patch panics, and the result of a patch is JSON.
func FuzzJSONPatch(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":2}]}`), []byte(`[{"op":"move","from":"/a/0","path":"/a/1/c"},{"op":"copy","from":"","path":"/d"}]`))
	f.Add([]byte(`[[]]`), []byte(`[{"op":"add","path":"/0/-","value":1},{"op":"test","path":"/0/0","value":1},{"op":"remove","path":""}]`))
	f.Fuzz(func(t *testing.T, document, patch []byte) {
		got, err := applyJSONPatch(document, patch)
		if err == nil {
			require.True(t, json.Valid(got), "%s", got)
		}
	})
}

// FuzzMergePatch: the patch that Kubernetes creates of two documents makes one of the other.
func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":{"c":[1]}}`), []byte(`{"b":{"c":[2],"d":"x"}}`))
	f.Fuzz(func(t *testing.T, from, to []byte) {
		var a, b map[string]any
		if json.Unmarshal(from, &a) != nil || json.Unmarshal(to, &b) != nil || a == nil || b == nil || hasNull(a) || hasNull(b) {
			return // a null is no value in a merge patch
		}
		patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(from, to, from)
		if err != nil {
			return
		}
		got, err := applyMergePatch(from, patch)
		require.NoError(t, err)
		var merged map[string]any
		require.NoError(t, json.Unmarshal(got, &merged))
		require.Equal(t, b, merged)
	})
}

func hasNull(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, field := range value {
			if hasNull(field) {
				return true
			}
		}
	case []any:
		for _, element := range value {
			if hasNull(element) {
				return true
			}
		}
	}
	return false
}
