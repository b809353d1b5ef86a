package screen

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
)

var errTooSlow = errors.New("too slow")

// TestCauses checks that the status names the cause that keeps a volume from its desired
// state.
func TestCauses(t *testing.T) {
	noLuck, inLine := errors.New("no luck"), errors.New("another has it")
	up := manager.PodState{Pod: "1", Name: "disk", Wanted: true, State: "present"}
	with := func(pod manager.PodState, change func(*manager.PodState)) []manager.PodState {
		change(&pod)
		return []manager.PodState{pod}
	}
	for name, test := range map[string]struct {
		v    manager.VolumeState
		says string // empty: all is as desired
		row  string
	}{
		"up to be read":   {manager.VolumeState{Pods: with(up, func(p *manager.PodState) { p.ReadOnly = true })}, "", "mounted, ro"},
		"up":              {manager.VolumeState{Pods: []manager.PodState{up}}, "", "mounted"},
		"failed":          {manager.VolumeState{Pods: with(up, func(p *manager.PodState) { p.Err = noLuck })}, "volume disk: no luck", "failed: no luck"},
		"failed for all":  {manager.VolumeState{Err: noLuck, Pods: with(up, func(p *manager.PodState) { p.State = "absent" })}, "volume disk: no luck", "pending: no luck"},
		"does not grow":   {manager.VolumeState{Err: noLuck, Pods: []manager.PodState{up}}, "volume disk: no luck", "mounted: no luck"},
		"waits":           {manager.VolumeState{Pods: with(up, func(p *manager.PodState) { p.State, p.Waits = "absent", inLine })}, "volume disk: another has it", "pending: another has it"},
		"is another":      {manager.VolumeState{Pods: with(up, func(p *manager.PodState) { p.Waits = inLine })}, "volume disk: another has it", "mounted: another has it"},
		"nobody's, stuck": {manager.VolumeState{Unique: "x/disk", Err: noLuck}, "volume x/disk: no luck", "leaving: no luck"},
	} {
		t.Run(name, func(t *testing.T) {
			state := manager.State{Restored: true, Populated: true, Volumes: []manager.VolumeState{test.v}}
			require.Equal(t, test.says == "", IsSettled(state))
			require.ErrorContains(t, WithCauses(errTooSlow, state), test.says)
			rows := table(state, &names{})
			require.Len(t, rows, 1)
			require.Equal(t, test.row, rows[0].cells[last])
			require.Equal(t, test.says == "", rows[0].isFine)
		})
	}
}
