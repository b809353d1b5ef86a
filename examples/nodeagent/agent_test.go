package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
)

// TestMistypedManifests: a directory that is not there is not made, which would be one
// without pods.
func TestMistypedManifests(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "typo")
	_, err := newAgent(options{manifests: dir, root: filepath.Join(dir, ".nodeagent")}, io.Discard)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "-manifests")
	require.NoDirExists(t, dir)
}

// What keeps a volume from being as desired is told, whatever it is that it waits for.
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
			require.Equal(t, test.says == "", isSettled(state))
			require.ErrorContains(t, withCauses(errTimeout, state), test.says)
			rows := table(state, &names{})
			require.Len(t, rows, 1)
			require.Equal(t, test.row, rows[0].cells[last])
			require.Equal(t, test.says == "", rows[0].isFine)
		})
	}
}
