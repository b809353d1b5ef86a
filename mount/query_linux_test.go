package mount

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// An endingContext ends while it is looked at, when it has been so many times.
type endingContext struct {
	context.Context
	looks int
	done  chan struct{}
}

func (c *endingContext) Done() <-chan struct{} { return c.done }

func (c *endingContext) Err() error {
	if c.looks--; c.looks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestQueryEndsAnywhere: whenever its context ends, a query says so, whatever kept it
// from an answer besides.
func TestQueryEndsAnywhere(t *testing.T) {
	m := New(Config{})
	defer func() { require.NoError(t, m.Close()) }()
	m.cache.close() // it cannot answer, and says that
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	for name, ask := range map[string]func(context.Context) error{
		"mount refs":  func(ctx context.Context) error { _, err := m.MountRefs(ctx, dir); return err },
		"resolve":     func(ctx context.Context) error { _, err := m.Resolve(ctx, dir+"/file"); return err },
		"mounts from": func(ctx context.Context) error { _, err := m.MountsFrom(ctx, dir); return err },
	} {
		t.Run(name, func(t *testing.T) {
			for looks := 0; ; looks++ {
				err := ask(&endingContext{Context: context.Background(), looks: looks, done: make(chan struct{})})
				if err == nil {
					require.GreaterOrEqual(t, looks, 2)
					return
				}
				require.ErrorIs(t, err, context.DeadlineExceeded, looks)
			}
		})
	}
}
