package mount

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// An endingContext ends when Err has been called as often as checks says.
type endingContext struct {
	context.Context
	checks int
	done   chan struct{}
}

func (c *endingContext) Done() <-chan struct{} { return c.done }

func (c *endingContext) Err() error {
	if c.checks--; c.checks < 0 {
		return context.DeadlineExceeded
	}
	return nil
}

// TestQueryReturnsContextError: a query whose context ends at any of its steps returns the error
// of the context, also if it meets another error.
func TestQueryReturnsContextError(t *testing.T) {
	m := New(Config{})
	defer func() { require.NoError(t, m.Close()) }()
	m.cache.Close() // the cache then returns errors
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
	for name, call := range map[string]func(context.Context) error{
		"mount refs":  func(ctx context.Context) error { _, err := m.MountRefs(ctx, dir); return err },
		"resolve":     func(ctx context.Context) error { _, err := m.Resolve(ctx, dir+"/file"); return err },
		"mounts from": func(ctx context.Context) error { _, err := m.MountsFrom(ctx, dir); return err },
	} {
		t.Run(name, func(t *testing.T) {
			for checks := 0; ; checks++ {
				err := call(&endingContext{Context: context.Background(), checks: checks, done: make(chan struct{})})
				if err == nil {
					require.GreaterOrEqual(t, checks, 2)
					return
				}
				require.ErrorIs(t, err, context.DeadlineExceeded, checks)
			}
		})
	}
}
