package nfsserver_test

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestNFSTally checks that each mount is counted, and each time that a server was dead.
func TestNFSTally(t *testing.T) {
	count := t.TempDir() + "/count"
	t.Run("test", func(t *testing.T) {
		t.Setenv("VOLUMEKIT_COUNT_FILE", count)
		dir := t.TempDir()
		server := nfsserver.Start(t, dir)
		for range 5 {
			oldMount(t, server.Source(dir), server.Options("4.2"))
		}
		require.Eventually(t, func() bool { return server.Mounts() == 5 }, time.Minute, 10*time.Millisecond)
		require.NoError(t, server.LinkDown())
		require.NoError(t, server.LinkUp())
		require.NoError(t, server.Stop())
		require.NoError(t, server.Start())
	})
	if _, err := os.Stat(count); err != nil {
		mounttest.SkipWithout(t, "nfs", err)
	}
	requireContent(t, count, "nfs 5 2 TestNFSTally/test\n")
}

// A nameless is a test without the prefix in its name that declares the need for NFS.
type nameless struct{ testing.TB }

func (nameless) Name() string          { return "TestSomething" }
func (nameless) Helper()               {}
func (nameless) Fatalf(string, ...any) { panic("refused") }

// TestNames: a server without a name for its test is refused.
func TestNames(t *testing.T) {
	require.PanicsWithValue(t, "refused", func() { nfsserver.Start(nameless{t}) })
}
