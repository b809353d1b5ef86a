package manifests

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"k8s.io/apimachinery/pkg/types"
)

// TestChangeNamesDifferingObjects: a change names the objects that differ from the last reading. Other
// objects keep their pointers.
func TestChangeNamesDifferingObjects(t *testing.T) {
	claim := types.NamespacedName{Namespace: "default", Name: "data"}
	for name, test := range map[string]struct {
		change func(d *testDir)
		want   func(before, after map[string]types.UID) manager.Change
	}{
		"a pod is added": {
			func(d *testDir) { d.writeFile("more.yaml", podYAML("more")) },
			func(_, after map[string]types.UID) manager.Change {
				return manager.Change{Pods: []types.UID{after["more"]}}
			},
		},
		"a pod is removed": {
			func(d *testDir) { d.remove("b.yaml") },
			func(before, _ map[string]types.UID) manager.Change {
				return manager.Change{Pods: []types.UID{before["b"]}}
			},
		},
		"a volume changes": {
			func(d *testDir) {
				d.writeFile("v.yaml", claimYAML+strings.Replace(volumeYAML, "{name: disk", "{labels: {x: z}, name: disk", 1))
			},
			func(_, _ map[string]types.UID) manager.Change { return manager.Change{Volumes: []string{"disk"}} },
		},
		"a volume and its claim go": {
			func(d *testDir) { d.remove("v.yaml") },
			func(_, _ map[string]types.UID) manager.Change {
				return manager.Change{Volumes: []string{"disk"}, Claims: []types.NamespacedName{claim}}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDir(t)
			d.writeFile("a.yaml", podYAML("a"))
			d.writeFile("b.yaml", podYAML("b"))
			d.writeFile("v.yaml", claimYAML+volumeYAML)
			before := d.pods()
			pod, err := d.source.Pod(t.Context(), before["a"])
			require.NoError(t, err)
			changes := make(chan manager.Change, 10)
			unsubscribe := d.source.Subscribe(func(change manager.Change) { changes <- change })
			d.run()
			test.change(d)
			change := <-changes
			require.Equal(t, test.want(before, d.pods()), change)

			again, err := d.source.Pod(t.Context(), before["a"])
			require.NoError(t, err)
			require.Same(t, pod, again)
			pods, err := d.source.Pods(t.Context())
			require.NoError(t, err)
			require.Same(t, pod, pods[0])
			d.writeFile("a.yaml", "# The same.\n"+podYAML("a"))
			d.writeFile("c.yaml", podYAML("c"))
			d.waitUntil(func() bool { return d.pods()["c"] != "" })
			again, err = d.source.Pod(t.Context(), before["a"])
			require.NoError(t, err)
			require.Same(t, pod, again)
			require.Equal(t, manager.Change{Pods: []types.UID{d.pods()["c"]}}, <-changes)

			unsubscribe()
			d.writeFile("e.yaml", podYAML("e"))
			d.waitUntil(func() bool { return d.pods()["e"] != "" })
			require.Empty(t, changes)
		})
	}
}

// TestFirstReadingReportsEverything: the first reading is reported as a change of everything.
func TestFirstReadingReportsEverything(t *testing.T) {
	d := newDir(t)
	changes := make(chan manager.Change, 10)
	defer d.source.Subscribe(func(change manager.Change) { changes <- change })()
	d.writeFile("a.yaml", podYAML("a"))
	require.Len(t, d.pods(), 1)
	require.Equal(t, manager.Change{Everything: true}, <-changes)
}
