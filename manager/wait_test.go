package manager

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// TestWaitLooksAtItsEnd: what a wait says is so when it ends, though nothing woke it.
func TestWaitLooksAtItsEnd(t *testing.T) {
	errBefore, errThen := errors.New("in line"), errors.New("under way")
	for name, then := range map[string][]VolumeError{"another reason": {{Err: errThen}}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			m := &Manager{world: newWorld(), waiters: map[types.UID]map[chan struct{}]bool{}}
			said := []VolumeError{{Err: errBefore}}
			err := m.waitFor(ctx, "pod", func() []VolumeError {
				defer func() { said = then }()
				cancel()
				return said
			})
			if then == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errThen)
			require.ErrorIs(t, err, context.Canceled)
			require.NotErrorIs(t, err, errBefore)
		})
	}
}
