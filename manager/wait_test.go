package manager

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWaitReturnsStateAtItsEnd: the error of a wait has the state of the volumes at the end of the
// wait, even if no notification arrived.
func TestWaitReturnsStateAtItsEnd(t *testing.T) {
	errBefore, errThen := errors.New("in line"), errors.New("under way")
	for name, then := range map[string][]VolumeError{"another reason": {{Err: errThen}}, "none": nil} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			m := &Manager{world: newWorld()}
			said := []VolumeError{{Err: errBefore}}
			err := m.waitFor(ctx, "pod", WaitOptions{}, func(*snapshot) []VolumeError {
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
