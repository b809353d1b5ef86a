package driver

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
)

// TestLock: a call that its caller has given up is waited for, for a time; another one is not.
func TestLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c calls
		first, giveUp := context.WithCancel(t.Context())
		unlock, err := c.lock(first, "a")
		require.NoError(t, err)
		_, err = c.lock(t.Context(), "a")
		require.Equal(t, codes.Aborted, codeOf(err))
		other, err := c.lock(t.Context(), "b")
		require.NoError(t, err)
		other()

		giveUp()
		began := time.Now()
		_, err = c.lock(t.Context(), "a")
		require.Equal(t, codes.Aborted, codeOf(err), "it is stuck")
		require.Equal(t, leavingTime, time.Since(began))
		time.AfterFunc(leavingTime/2, unlock)
		again, err := c.lock(t.Context(), "a")
		require.NoError(t, err)
		_, err = c.lock(t.Context(), "a")
		require.Equal(t, codes.Aborted, codeOf(err), "the new call is in flight")
		again()
		require.Empty(t, c.holders)
		require.Zero(t, c.locks.Len())
	})
}
