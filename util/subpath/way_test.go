package subpath

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWay(t *testing.T) {
	w := newWay("./a//b/./c/")
	part, ok := w.next()
	require.True(t, ok)
	require.Equal(t, "a", part)
	require.NoError(t, w.follow("../x/./y"))
	require.Equal(t, []string{"..", "x", "y", "b", "c"}, w.rest)
	require.ErrorIs(t, w.follow("/etc"), ErrEscapes)
	for range mostLinks - 1 {
		require.NoError(t, w.follow("."))
	}
	require.ErrorIs(t, w.follow("."), errTooManyLinks)
	for range 5 {
		_, ok = w.next()
		require.True(t, ok)
	}
	_, ok = w.next()
	require.False(t, ok)
}

func TestBadInput(t *testing.T) {
	good := Request{PodDir: "/pods/1", Volume: "v", Container: "c", VolumeDir: "/pods/1/v", Path: "a/b"}
	require.NoError(t, good.check())
	require.Equal(t, "/pods/1/volume-subpaths/v/c/0", good.Target())
	for _, test := range []struct {
		field string
		bad   func(*Request)
	}{
		{"PodDir", func(r *Request) { r.PodDir = "" }},
		{"PodDir", func(r *Request) { r.PodDir = "pods" }},
		{"PodDir", func(r *Request) { r.PodDir = "/." }},
		{"PodDir", func(r *Request) { r.PodDir = "/pods/../etc" }},
		{"PodDir", func(r *Request) { r.PodDir = "/pods\x00" }},
		{"Volume", func(r *Request) { r.Volume = "" }},
		{"Volume", func(r *Request) { r.Volume = ".." }},
		{"Volume", func(r *Request) { r.Volume = "a/b" }},
		{"Volume", func(r *Request) { r.Volume = "a\x00" }},
		{"Container", func(r *Request) { r.Container = "." }},
		{"Container", func(r *Request) { r.Container = strings.Repeat("x", 256) }},
		{"Index", func(r *Request) { r.Index = -1 }},
		{"VolumeDir", func(r *Request) { r.VolumeDir = "/" }},
		{"VolumeDir", func(r *Request) { r.VolumeDir = "v" }},
		{"Path", func(r *Request) { r.Path = "" }},
		{"Path", func(r *Request) { r.Path = "/a" }},
		{"Path", func(r *Request) { r.Path = "a/../b" }},
		{"Path", func(r *Request) { r.Path = ".." }},
		{"Path", func(r *Request) { r.Path = "a\x00" }},
		{"Path", func(r *Request) { r.Path = strings.Repeat("a/", 3000) }},
		{"Path", func(r *Request) { r.Path = strings.Repeat("a/", maxDepth+1) }},
		{"Path", func(r *Request) { r.Path = "a/" + strings.Repeat("x", 256) }},
		{"VolumeDir", func(r *Request) { r.VolumeDir = "/pods/" + strings.Repeat("x", 256) }},
		{"PodDir", func(r *Request) { r.PodDir = strings.Repeat("/p", 2040) }},
		{"Submounts", func(r *Request) { r.Submounts = -1 }},
		{"Submounts", func(r *Request) { r.Submounts = 3 }},
	} {
		req := good
		test.bad(&req)
		_, err := Bind(t.Context(), nil, req)
		var input *InputError
		require.ErrorAs(t, err, &input, "%+v", req)
		require.Equal(t, test.field, input.Field, "%+v", req)
		require.NotEmpty(t, input.Error())
	}
	var input *InputError
	require.ErrorAs(t, Cleanup(t.Context(), nil, "/pods/1", "../2"), &input)
	require.ErrorAs(t, Cleanup(t.Context(), nil, "1", "v"), &input)
	_, err := Volumes(context.Background(), "")
	require.ErrorAs(t, err, &input)
}
