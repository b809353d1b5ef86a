package nfsserver_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
)

// TestNFSFar: two servers, one of which is cut off while the other answers, each in
// turn.
func TestNFSFar(t *testing.T) {
	for range 2 { // nothing is left that the next is kept by
		t.Run("", func(t *testing.T) {
			hereDir, farDir := t.TempDir(), t.TempDir()
			here := nfsserver.Start(t, hereDir)
			far := nfsserver.ServeFar(t, nfsserver.Export{Dir: farDir})
			require.Equal(t, nfsserver.Far, far.Address)
			for _, version := range versions {
				fromHere := oldMount(t, here.Source(hereDir), here.Options(version)+",noac")
				fromFar := oldMount(t, far.Source(farDir), far.Options(version)+",noac")
				requireShared(t, hereDir, fromHere)
				requireShared(t, farDir, fromFar)
			}
			fromHere := oldMount(t, here.Source(hereDir), here.Options("4.2")+",noac")
			fromFar := oldMount(t, far.Source(farDir), far.Options("4.2")+",noac")
			withLinkDown(t, far, fromFar, func() { requireShared(t, hereDir, fromHere) })
			withLinkDown(t, here, fromHere, func() { requireShared(t, farDir, fromFar) })
			require.NoError(t, far.Stop())
			requireShared(t, hereDir, fromHere)
			require.NoError(t, far.Start())
			requireShared(t, farDir, fromFar)
		})
	}
}

// withLinkDown calls do while the link to the server is down and a query of its mount waits.
func withLinkDown(t *testing.T, server *nfsserver.Server, mounted string, do func()) {
	t.Helper()
	require.NoError(t, server.LinkDown())
	looked := startCall(func() error {
		_, err := os.Stat(mounted + "/file")
		return err
	})
	requireWaiting(t, looked)
	do()
	require.NoError(t, server.LinkUp())
	require.NoError(t, result(t, looked))
}
