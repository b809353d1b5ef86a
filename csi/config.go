package csi

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/csi/internal/hostfile"
	"github.com/volumekit/volumekit/csi/internal/stageuse"
	"github.com/volumekit/volumekit/internal/bootid"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// PluginName is the name of the plugin.
const PluginName = "kubernetes.io/csi"

// Config configures the plugin. Mounter and Drivers are required.
type Config struct {
	// Mounter reads the mount table: drivers mount. It unmounts nothing of a driver.
	Mounter mount.Interface
	// Drivers finds the registered drivers. registration.Watcher is one.
	Drivers Drivers
	// Objects returns CSIDriver objects. Nil: no driver has an object, so that the defaults of the
	// API hold, and inline volumes are refused.
	Objects DriverObjectGetter
	// Attachments waits for the attachments of volumes to this node. Nil: no volume has to be
	// attached, and no publish context is passed to drivers.
	Attachments AttachmentReader
	// Secrets returns the Secrets that volumes name. Nil: a volume that names one is refused.
	Secrets SecretGetter
	// Tokens returns the tokens that CSIDriver objects request. Nil: volumes of a driver that
	// requests tokens are refused.
	Tokens TokenGetter
	// OnUnchanged is called for each file, or directory, of a volume that cannot be given to a pod's
	// FsGroup, such as an immutable file, or one of a file system that ignores changes of owner
	// (ErrIgnored of package ownership). If it returns nil the file stays as it is and SetUp goes
	// on, as a kubelet does; otherwise SetUp fails. Nil: SetUp fails. It may be called concurrently.
	// A volume that is read-only as a whole keeps its owners without a call.
	OnUnchanged func(ctx context.Context, file string, err error) error
}

// Plugin is the volume plugin. [New] returns one. Its methods are safe for concurrent use.
type Plugin struct {
	config  Config
	host    volume.VolumeHost
	mounts  *podvolume.Mounts
	files   hostFiles
	boot    string // ID of the running system
	clients clients
	objects objects
	calls   keylock.Map // by volume: one call of a driver in flight for each volume
	uses    stageuse.Uses
	expands pendingExpansions

	measurements measurements
	patience     time.Duration // see measurementPatience
}

var (
	_ volume.VolumePlugin                = (*Plugin)(nil)
	_ volume.PathVolumePlugin            = (*Plugin)(nil)
	_ volume.PersistentVolumePlugin      = (*Plugin)(nil)
	_ volume.MountOptionsVolumePlugin    = (*Plugin)(nil)
	_ volume.RemountVolumePlugin         = (*Plugin)(nil)
	_ volume.SELinuxVolumePlugin         = (*Plugin)(nil)
	_ volume.AttachableVolumePlugin      = (*Plugin)(nil)
	_ volume.DeviceMountableVolumePlugin = (*Plugin)(nil)
	_ volume.BlockVolumePlugin           = (*Plugin)(nil)
	_ volume.NodeExpandableVolumePlugin  = (*Plugin)(nil)
	_ volume.BackendVolumePlugin         = (*Plugin)(nil)
	_ volume.LeftoverVolumePlugin        = (*Plugin)(nil)
)

// New returns the plugin. Init returns an error if the configuration is invalid.
func New(config Config) *Plugin { return &Plugin{config: config, patience: measurementPatience} }

// Init implements [volume.VolumePlugin]. It calls no driver.
func (p *Plugin) Init(_ context.Context, host volume.VolumeHost) error {
	switch {
	case p.config.Mounter == nil:
		return errors.New("csi: Config.Mounter is missing")
	case p.config.Drivers == nil:
		return errors.New("csi: Config.Drivers is missing")
	}
	if _, err := host.PluginDir(PluginName); err != nil {
		return fmt.Errorf("csi: %w", err)
	}
	boot, err := bootid.Read()
	if err != nil {
		return fmt.Errorf("csi: %w", err)
	}
	p.host, p.boot = host, boot
	p.mounts, p.files = podvolume.NewMounts(host, p.config.Mounter), hostFiles{hostfile.Files{Root: host.Root()}}
	return nil
}

// Close closes the connections to all drivers. Calls in flight end with an uncertain error. A later
// call of the plugin connects again.
func (p *Plugin) Close() error {
	p.clients.closeAll()
	return nil
}
