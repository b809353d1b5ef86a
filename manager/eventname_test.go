package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// TestEventNamesVolume: an event names a volume by its directory if the reconstruction after a
// restart found only the directory.
func TestEventNamesVolume(t *testing.T) {
	out := execution.Outcome{Job: execution.Job{Operation: operation.Operation{Verb: operation.TearDown, Pod: naming.PodKey{Pod: "uid", Name: "theirs"}}}}
	event, ok := eventOf(out, out.Operation.Pod, nil)
	require.True(t, ok)
	require.Equal(t, `tear down: volume "theirs"`, event.Message)
	out.Operation.Pod.Name = "theirs~r"
	event, _ = eventOf(out, out.Operation.Pod, nil)
	require.Equal(t, `tear down: volume "theirs" (read-only view)`, event.Message)
	out = execution.Outcome{Job: execution.Job{Operation: operation.Operation{Verb: operation.Detach}, Name: "server:/export"}}
	require.Equal(t, "server:/export", out.ShownName())
}
