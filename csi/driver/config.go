package driver

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"time"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config configures a driver. Name, Version, NodeID, Plugin and Host are required.
type Config struct {
	// Name of the driver, a domain name such as "local.csi.example.com". At most 63 bytes. It must
	// never change while volumes exist.
	Name string
	// Version of the driver, for people.
	Version string
	// NodeID is the name of this node in calls of the controller service. At most 128 bytes.
	NodeID string
	// Plugin is the volume plugin. It must be a volume.PathVolumePlugin and a
	// volume.PersistentVolumePlugin. Serve initialises it.
	Plugin volume.VolumePlugin
	// Host has the directories of the plugin and of the node's records. Its root must outlive the
	// process. Volumes are published below its root and its target directories, volume.WithTargetDirs,
	// such as the kubelet's directory, without symbolic links in the path. Paths at which a volume would
	// hide files of the driver are refused: below the root, only pods and plugins/kubernetes.io/csi have
	// target paths.
	Host volume.VolumeHost
	// Mounter binds raw devices at their target paths. Nil: the driver serves no raw devices.
	Mounter mount.Interface

	// ControllerDir is an existing directory for the records of created and attached volumes. All
	// processes that serve the controller service of the driver, one after the other, need the same
	// directory: a volume without a record is not deleted, as if it did not exist. Empty: below the
	// root of Host, for a driver whose volumes belong to one node.
	ControllerDir string
	// NodeName returns the name of the node with an ID, for Attach. An error of volume.IsNotFound: no
	// such node. Nil: NodeID is the host's node, and other IDs are names of nodes.
	NodeName func(ctx context.Context, nodeID string) (types.NodeName, error)
	// Topology are the segments of this node, if not every node reaches every volume. Empty: each does.
	Topology []Segment
	// MaxVolumes is the largest number of attached volumes of the node. 0: not limited.
	MaxVolumes int64
	// OfflineExpansion declares that volumes grow only while they are not published.
	OfflineExpansion bool
	// MountGroup declares VOLUME_MOUNT_GROUP: the plugin gives the files of a volume to a group, FsGroup of
	// volume.MounterArgs and of volume.DeviceMounterArgs, so that the caller does not. A group is then refused
	// for a writable volume of which the attributes of the volume.Mounter say that it is not Managed.
	MountGroup bool
	// Capacity returns the space for new volumes of a class with these parameters. Nil: not known, and
	// the driver declares no GET_CAPACITY.
	Capacity func(ctx context.Context, parameters map[string]string) (Capacity, error)
	// Healthy returns an error if the driver cannot work, for Probe. Nil: always healthy.
	Healthy func(ctx context.Context) error

	// Logger receives failed calls. Nil: silent.
	Logger *slog.Logger
	// GracePeriod is the time for calls in flight to end after the context of Serve. 0: 10 seconds.
	GracePeriod time.Duration
}

// A Segment is a topology of a node: the volumes of one value are not reached from others.
type Segment struct {
	// Key of the topology, such as "topology.local.csi.example.com/node". A kubelet writes it as a label
	// of the node.
	Key string
	// Label is the label in the node affinity of the plugin's volumes. Empty: kubernetes.io/hostname,
	// whose values are taken as names of nodes.
	Label string
	// Value of this node.
	Value string
}

// Capacity is the space for new volumes in bytes.
type Capacity struct {
	Available int64 // in all
	Largest   int64 // volume that can be created; 0: not known
}

// driverName matches names of drivers.
var driverName = regexp.MustCompile(`^[a-zA-Z]([-a-zA-Z0-9.]*[a-zA-Z0-9])?$`)

const (
	longestDriver = 63
	longestField  = 128
)

// check returns a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("config")
	switch {
	case c.Name == "" || len(c.Name) > longestDriver || !driverName.MatchString(c.Name):
		return volume.Invalid(at.Child("name"), c.Name, "must be a domain name of at most 63 bytes")
	case c.Version == "":
		return field.Required(at.Child("version"), "for people")
	case c.NodeID == "":
		return field.Required(at.Child("nodeID"), "the controller names the node by it")
	case checkText(c.NodeID, longestField) != "":
		return volume.Invalid(at.Child("nodeID"), c.NodeID, checkText(c.NodeID, longestField))
	case input.IsNil(c.Plugin):
		return field.Required(at.Child("plugin"), "the driver serves it")
	case input.IsNil(c.Host):
		return field.Required(at.Child("host"), "plugins need a host")
	case c.MaxVolumes < 0:
		return field.Invalid(at.Child("maxVolumes"), c.MaxVolumes, "must be at least 0")
	case c.GracePeriod < 0:
		return field.Invalid(at.Child("gracePeriod"), c.GracePeriod.String(), "must be at least 0")
	case c.ControllerDir != "" && !filepath.IsAbs(c.ControllerDir):
		return volume.Invalid(at.Child("controllerDir"), c.ControllerDir, "must be absolute")
	}
	return checkTopology(at.Child("topology"), c.Topology)
}

func checkTopology(at *field.Path, segments []Segment) error {
	seen := map[string]bool{}
	for i, s := range segments {
		if problems := validation.IsQualifiedName(s.Key); len(problems) > 0 {
			return volume.Invalid(at.Index(i).Child("key"), s.Key, problems[0])
		}
		if problems := validation.IsValidLabelValue(s.Value); len(problems) > 0 || s.Value == "" {
			return volume.Invalid(at.Index(i).Child("value"), s.Value, "must be the value of a label, and not empty")
		}
		if seen[s.Key] || seen["label "+s.label()] {
			return field.Duplicate(at.Index(i), s.Key)
		}
		seen[s.Key], seen["label "+s.label()] = true, true
	}
	return nil
}

func (s Segment) label() string {
	if s.Label == "" {
		return v1.LabelHostname
	}
	return s.Label
}

// defaults returns the configuration with the defaults of empty fields.
func (c Config) defaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.GracePeriod == 0 {
		c.GracePeriod = 10 * time.Second
	}
	if c.NodeName == nil {
		own, host := c.NodeID, c.Host
		c.NodeName = func(_ context.Context, nodeID string) (types.NodeName, error) {
			if nodeID == own {
				return host.NodeName(), nil
			}
			return types.NodeName(nodeID), nil
		}
	}
	return c
}

// pluginDir returns the directory of the driver's own records below the root of the host.
func (c *Config) pluginDir() (string, error) {
	dir, err := c.Host.PluginDir("volumekit.io/csi")
	if err != nil {
		return "", fmt.Errorf("directory of the records: %w", err)
	}
	return filepath.Join(dir, c.Name), nil
}
