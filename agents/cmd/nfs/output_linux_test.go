package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestOutputFails: output that cannot be written is an error that says so, and ends the
// program, which unmounts the volume.
func TestOutputFails(t *testing.T) {
	dir := tempDir(t)
	fake := mounttest.NewFake(mount.Config{})
	testbed.EachFailingOutput(t, func(out *os.File, says string) {
		for _, args := range []string{"-server nas -path /x", "-demo"} {
			var stderr bytes.Buffer
			require.Equal(t, 1, run(t.Context(), strings.Fields(args), out, &stderr, fakes(fake)), args)
			require.Regexp(t, "^nfs: standard output: .*"+says+"\n$", stderr.String(), args)
		}
	})
	table, err := fake.List(t.Context())
	require.NoError(t, err)
	for _, info := range table {
		require.NotEqual(t, "nfs4", info.FSType)
	}
	requireEmpty(t, dir)
}
