package registration_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/csi/registration"
)

// TestKeep: an error does not end the registration, and the end of the context does.
func TestKeep(t *testing.T) {
	dir, err := os.MkdirTemp("", "k") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	registry := filepath.Join(dir, "registry")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan struct{}, 100)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		registration.Keep(ctx, registration.ServerConfig{
			Dir: registry, Endpoint: dir + "/csi.sock", Driver: "nfs.example.com", Logger: slog.New(signalling{slog.DiscardHandler, failed}),
		})
	}()
	<-failed // the directory is missing
	require.NoError(t, os.Mkdir(registry, 0o750))
	socket := registry + "/nfs.example.com-reg.sock"
	require.Eventually(t, func() bool { _, err := os.Lstat(socket); return err == nil }, time.Minute, time.Millisecond)
	cancel()
	<-ended
	require.NoFileExists(t, socket)
}

// A signalling handler reports each record.
type signalling struct {
	slog.Handler
	to chan<- struct{}
}

func (s signalling) Enabled(context.Context, slog.Level) bool { return true }

func (s signalling) Handle(context.Context, slog.Record) error {
	s.to <- struct{}{}
	return nil
}
