package nfs_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestNFSContract is the contract of plugins with a real server. A short test has each
// kind of volume with one of the two ways to mount it.
func TestNFSContract(t *testing.T) {
	n := newNode(t, nfs.Config{})
	var dirs atomic.Int32
	for name, newSpec := range map[string]func(path string) *volume.Spec{
		"pv":     func(path string) *volume.Spec { return n.pv(path) },
		"inline": n.inline,
	} {
		for _, one := range []bool{false, true} {
			if testing.Short() && one != (name == "pv") {
				continue
			}
			t.Run(fmt.Sprintf("%s/%t", name, one), func(t *testing.T) {
				config := contractConfig(nfs.Config{OneMountPerExport: one}, func(readOnly bool) *volume.Spec {
					spec := newSpec(n.exported(fmt.Sprint(dirs.Add(1))))
					nfsOf(spec).ReadOnly = readOnly
					return spec
				})
				config.NewMounter = func(t *testing.T) mount.Interface { return realMounter(t.TempDir(), 2*time.Second) }
				config.Backing = func(spec *volume.Spec) string { return nfsOf(spec).Path }
				volumetest.TestPlugin(t, config)
			})
		}
	}
}
