package manager

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/mount"
)

// TestMountDuringOperationIsChecked: a mount during a set-up, other than the set-up's own, causes a check
// of the volume after the set-up.
func TestMountDuringOperationIsChecked(t *testing.T) {
	const own, at = 7, "/root/pods/a/volumes/p/vol"
	for name, test := range map[string]struct {
		changes []mount.MountChange
		checked bool
	}{
		"nothing":           {nil, false},
		"its own":           {[]mount.MountChange{{ID: own, Parent: 1, Target: at}}, false},
		"another on top":    {[]mount.MountChange{{ID: own, Parent: 1, Target: at}, {ID: 8, Parent: own, Target: at}}, true},
		"it is gone again":  {[]mount.MountChange{{ID: own}}, true},
		"another elsewhere": {[]mount.MountChange{{ID: 8, Parent: 1, Target: "/elsewhere"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := newIdleLoop(t)
			l.putVolume(vol, actualVolume(naming.Traits{}, actual.Absent, actual.Absent, map[naming.PodKey]actual.State{podA: actual.Uncertain}))
			f := &operation.Flight{Operation: operation.Operation{Verb: operation.SetUp, Volume: vol, Pod: podA}, TableEvents: l.tableEvents}
			l.schedule.Add(f)
			l.recordTableChange(mount.TableChange{Mounts: test.changes})
			require.True(t, l.mountQueue.IsEmpty(), "before it has ended")
			l.queueMountCheckAfter(f, execution.Outcome{Job: execution.Job{Operation: f.Operation}, Mount: own})
			require.Equal(t, test.checked, l.mountQueue.HasPlace(naming.Place{Volume: vol, Key: podA}))
		})
	}
}
