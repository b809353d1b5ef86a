package csitest

import (
	"cmp"
	"io/fs"
	"os"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/volumekit/volumekit/mount"
)

// Config describes a [Driver]. The zero value is a driver that only publishes volumes.
type Config struct {
	// Name is the name of the driver. Empty: "driver.csitest.io".
	Name string
	// Version is the version of the driver. Empty: "1.0.0".
	Version string
	// Capabilities are the declared capabilities. A call that needs another one fails with
	// Unimplemented, and is a violation.
	Capabilities Capabilities

	// NodeID is the name of the node. Empty: "node".
	NodeID string
	// MaxVolumesPerNode and Topology are further results of NodeGetInfo.
	MaxVolumesPerNode int64
	Topology          map[string]string

	// KnownVolumes says that volumes exist only if CreateVolume has created them, or
	// [Driver.AddVolume] has added them. Calls for others fail with NotFound. Without
	// KnownVolumes each volume exists with its first call.
	KnownVolumes bool
	// PublishContext is the publish context of each volume that ControllerPublishVolume
	// publishes.
	PublishContext map[string]string
	// Secrets are, by method, the secrets that calls must have, and no others. Nil: any.
	Secrets map[Method]Secrets

	// Files are the files of the node. Nil: the system's.
	Files Files
	// Mounter mounts volumes: when it is staged, a file system of the type "csitest" with
	// the volume's ID as its source at the staging path; when it is published, a bind mount
	// of the staging path, or without STAGE_UNSTAGE_VOLUME such a file system, at the target.
	// Nil: the driver only creates and removes the targets.
	Mounter mount.Interface
	// Device is the device file that the driver bind mounts on the targets of block volumes,
	// with Mounter. Empty: the target of a block volume is an empty file.
	Device string
}

// Capabilities are the capabilities that a [Driver] declares.
type Capabilities struct {
	Plugin     []csipb.PluginCapability_Service_Type
	Expansion  []csipb.PluginCapability_VolumeExpansion_Type
	Controller []csipb.ControllerServiceCapability_RPC_Type
	Node       []csipb.NodeServiceCapability_RPC_Type
}

// Files are the files of a node. *mounttest.MemoryFiles implements it. Methods are those of
// package os.
type Files interface {
	Lstat(name string) (fs.FileInfo, error)
	Mkdir(name string, perm fs.FileMode) error
	WriteFile(name string, data []byte, perm fs.FileMode) error
	Remove(name string) error
}

// systemFiles are the files of the operating system.
type systemFiles struct{}

func (systemFiles) Lstat(name string) (fs.FileInfo, error)    { return os.Lstat(name) }
func (systemFiles) Mkdir(name string, perm fs.FileMode) error { return os.Mkdir(name, perm) }
func (systemFiles) Remove(name string) error                  { return os.Remove(name) }
func (systemFiles) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return os.WriteFile(name, data, perm)
}

// withDefaults returns the configuration with the defaults of its empty fields.
func (c Config) withDefaults() Config {
	c.Name = cmp.Or(c.Name, "driver.csitest.io")
	c.Version = cmp.Or(c.Version, "1.0.0")
	c.NodeID = cmp.Or(c.NodeID, "node")
	if c.Files == nil {
		c.Files = systemFiles{}
	}
	return c
}
