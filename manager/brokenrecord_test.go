package manager_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestRecordWithForeignPathIsRefused: a record with another device mount path than the plugin's is a
// leftover, and the mount at its path stays.
func TestRecordWithForeignPathIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{NoAttach: true})
		n.claim("a")
		n.claim("b")
		one, two := podWith("1", "a"), podWith("2", "b")
		_, stop := n.runUp(one, two)
		stop()
		victim := n.mountsBelow("/pods/2/")[0].Mountpoint
		files, err := filepath.Glob(n.host.Root() + "/plugins/volumekit.io/manager/volumes/*.json")
		require.NoError(t, err)
		for _, f := range files {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			before, rest, ok := strings.Cut(string(text), `"deviceMountPath":"`)
			require.True(t, ok)
			if strings.Contains(string(text), "disk-a") {
				_, after, _ := strings.Cut(rest, `"`)
				require.NoError(t, os.WriteFile(f, []byte(before+`"deviceMountPath":"`+victim+`"`+after), 0o600))
			}
		}
		n.source.RemovePod("1")
		m, stop := n.run()
		time.Sleep(time.Hour)
		require.Len(t, n.mountsBelow("/pods/2/"), 1)
		n.up(m, two)
		require.ErrorContains(t, m.State().Leftovers[0].Err, "device mount path")
		stop()
	})
}

// TestBrokenRecordIsLeftover: the leftover of a truncated record, or of one of another version,
// names its file. The plugin still reconstructs the volume.
func TestBrokenRecordIsLeftover(t *testing.T) {
	for name, text := range map[string]string{
		"empty":   "",
		"torn":    `{"version":1,"volume":"volumekit`,
		"other":   `{"version":99}`,
		"of none": `{"version":1,"volume":"x","plugin":"p","spec":{}}`,
		"rubbish": "\x00\xff",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a")
				pod := podWith("1", "a")
				_, stop := n.runUp(pod)
				stop()
				files, err := filepath.Glob(n.host.Root() + "/plugins/volumekit.io/manager/volumes/*.json")
				require.NoError(t, err)
				require.Len(t, files, 1)
				require.NoError(t, os.WriteFile(files[0], []byte(text), 0o600))

				n.source.RemovePod("1")
				m, stop := n.run()
				time.Sleep(time.Second)
				require.Zero(t, n.mountCount(), "the plugin knows what it is")
				require.True(t, slices.ContainsFunc(m.State().Leftovers, func(l manager.Leftover) bool {
					return l.Err != nil && strings.Contains(l.Err.Error(), files[0])
				}), m.State().Leftovers)
				stop()
			})
		})
	}
}
