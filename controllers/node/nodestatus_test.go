package node

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// stateOf returns a node with a UID, a version and volumes in use.
func stateOf(uid types.UID, version string, inUse ...v1.UniqueVolumeName) *v1.Node {
	n := &v1.Node{Status: v1.NodeStatus{VolumesInUse: inUse}}
	n.UID, n.ResourceVersion = uid, version
	return n
}

// TestNewestNode: results of calls and events of the watch arrive in any order, and the newest state
// counts; a deleted node does not come back.
func TestNewestNode(t *testing.T) {
	first, second, third := stateOf("x", "8"), stateOf("x", "9"), stateOf("x", "10")
	other := stateOf("y", "20")
	deleted := api.Change[*v1.Node]{Old: second}
	watched := func(n *v1.Node) func(*nodeStatus) {
		return func(s *nodeStatus) { s.observe(api.Change[*v1.Node]{New: n}) }
	}
	written := func(n *v1.Node) func(*nodeStatus) { return func(s *nodeStatus) { s.record(n) } }
	for name, test := range map[string]struct {
		steps []func(*nodeStatus)
		want  *v1.Node
	}{
		"a late event":          {[]func(*nodeStatus){watched(first), written(third), watched(second)}, third},
		"a late result":         {[]func(*nodeStatus){watched(first), watched(third), written(second)}, third},
		"a new event":           {[]func(*nodeStatus){written(second), watched(third)}, third},
		"deleted":               {[]func(*nodeStatus){watched(first), func(s *nodeStatus) { s.observe(deleted) }}, nil},
		"a result of a deleted": {[]func(*nodeStatus){watched(first), func(s *nodeStatus) { s.observe(deleted) }, written(third)}, nil},
		"a late state":          {[]func(*nodeStatus){watched(first), func(s *nodeStatus) { s.observe(deleted) }, watched(first)}, nil},
		"another node":          {[]func(*nodeStatus){watched(first), func(s *nodeStatus) { s.observe(deleted) }, written(third), watched(other)}, other},
		"a late deletion":       {[]func(*nodeStatus){watched(first), written(other), func(s *nodeStatus) { s.observe(deleted) }}, other},
		"missing":               {[]func(*nodeStatus){watched(first), func(s *nodeStatus) { s.recordMissing(first) }}, nil},
		"missing before":        {[]func(*nodeStatus){watched(first), watched(other), func(s *nodeStatus) { s.recordMissing(first) }}, other},
	} {
		t.Run(name, func(t *testing.T) {
			var s nodeStatus
			for _, step := range test.steps {
				step(&s)
			}
			require.Same(t, test.want, s.node)
		})
	}
}

// TestPlanWrite: a write with an open outcome is sent again until the node has another version.
func TestPlanWrite(t *testing.T) {
	list := []v1.UniqueVolumeName{"v"}
	open := &statusWrite{uid: "x", version: "8", names: []v1.UniqueVolumeName{"open"}}
	for name, test := range map[string]struct {
		node     *v1.Node
		write    *statusWrite
		complete bool
		want     []v1.UniqueVolumeName // of the write
		reported []v1.UniqueVolumeName
	}{
		"no node":             {nil, nil, true, nil, nil},
		"no node, open":       {nil, open, true, nil, nil},
		"not complete":        {stateOf("x", "8", "w"), nil, false, nil, []v1.UniqueVolumeName{"w"}},
		"equal":               {stateOf("x", "8", "v"), nil, true, nil, list},
		"differs":             {stateOf("x", "8", "w"), nil, true, list, nil},
		"open":                {stateOf("x", "8", "v", "open"), open, true, open.names, open.names},
		"open, not complete":  {stateOf("x", "8", "v"), open, false, open.names, nil},
		"open, newer version": {stateOf("x", "9", "w"), open, true, list, nil},
		"open, other node":    {stateOf("y", "8", "w"), open, true, list, nil},
		"open, took effect":   {stateOf("x", "9", "v"), open, true, nil, list},
	} {
		t.Run(name, func(t *testing.T) {
			s := nodeStatus{node: test.node, write: test.write}
			got := s.plan(list, test.complete)
			if test.want == nil {
				require.Nil(t, got)
			} else {
				require.Equal(t, test.want, got.names)
				require.Equal(t, test.node.ResourceVersion, got.version)
			}
			require.Equal(t, test.reported, s.reported())
		})
	}
}

// TestInvalidDevicePath: the error for a device path that is no text has valid text.
func TestInvalidDevicePath(t *testing.T) {
	require.NoError(t, checkDevicePath("/dev/disk/by-id/ä"))
	err := checkDevicePath("/dev/\xff")
	require.ErrorContains(t, err, "/dev/\uFFFD")
}
