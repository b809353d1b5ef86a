package manager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSlowAnswerIsLeft: who asks what was slow before goes on without the answer, however
// quickly that comes now, and has it the next time: until then it is somebody else's to
// write.
func TestSlowAnswerIsLeft(t *testing.T) {
	about := question{forVolume: true, name: "pv"}
	told := 0
	q := &inquirer{
		source: NewMemorySource(), timeout: time.Hour, tell: func() { told++ },
		open: map[question]*inquiry{}, slow: map[question]bool{about: true},
	}
	all := gathered{}
	require.False(t, q.askAll(t.Context(), []question{about}, 1, all))
	require.ErrorIs(t, all[about].err, errAsking)
	require.Equal(t, 1, told)
	require.True(t, q.isLate())
	require.False(t, q.askAll(t.Context(), []question{about}, 1, all))
	require.Error(t, all[about].err)
	require.NotErrorIs(t, all[about].err, errAsking)
}
