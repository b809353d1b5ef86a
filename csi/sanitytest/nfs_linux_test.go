package sanitytest_test

import (
	"context"
	"os"
	"testing"

	"github.com/kubernetes-csi/csi-test/v5/pkg/sanity"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/driver"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
)

// TestNFSSanity runs csi-sanity on a driver of NFS volumes with a real server, which has the records of the
// driver, too.
func TestNFSSanity(t *testing.T) {
	export, at := t.TempDir(), t.TempDir()
	server := nfsserver.Start(t, export)
	kernel := mount.New(mount.Config{Helpers: []string{}})
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{
		Source: server.Source(export), Target: at, FSType: "nfs4", Options: []string{"vers=4.2"},
	}))
	t.Cleanup(func() { require.NoError(t, kernel.Unmount(context.Background(), at)) })
	records := at + "/.volumekit/.csi"
	require.NoError(t, os.MkdirAll(records, 0o700))
	runSanity(t, served{
		name: "nfs",
		plugin: func(_ string, mounter mount.Interface) volume.VolumePlugin {
			return nfs.NewProvisioning(nfs.ProvisioningConfig{
				Config: nfs.Config{Mounter: mounter}, Provisioner: "nfs.csi.example.com", Server: server.Address, Path: export, Dir: at,
			})
		},
		driver: func(_ string, c *driver.Config) { c.ControllerDir = records },
		sanity: func(c *sanity.TestConfig) { c.TestVolumeParameters = map[string]string{"onDelete": "delete"} },
		skips: merge(notServed, map[string]string{
			"ControllerPublishVolume not supported":             noExportAttach,
			"ControllerUnpublishVolume not supported":           noExportAttach,
			"Controller Publish, UnpublishVolume not supported": noExportAttach,
			"NodeStageVolume not supported":                     noExportStage,
			"NodeUnstageVolume not supported":                   noExportStage,
			"GetCapacity not supported":                         "the volumes share the space of the export",
			"ControllerExpandVolume not supported":              "a directory has no size of its own to expand",
			"NodeExpandVolume not supported":                    "a directory has no size of its own to expand",
		}),
		files: []string{export},
	})
}

const (
	noExportAttach = "each node reaches the server"
	noExportStage  = "each pod has a mount of its own"
)
