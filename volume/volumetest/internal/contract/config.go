package contract

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// Config configures a test. Each field has the meaning of volumetest.Config's field of the
// same name, whose functions also receive the test.
type Config struct {
	New        func(host volume.VolumeHost, mounter mount.Interface) volume.VolumePlugin
	NewMounter func() mount.Interface

	Spec         func() *volume.Spec
	ReadOnlySpec func() *volume.Spec
	BlockSpec    func() *volume.Spec
	NoBlock      bool
	Unsupported  []*volume.Spec
	Invalid      map[string]*volume.Spec

	Enlarge          func(spec *volume.Spec) resource.Quantity
	OwnCapacity      bool
	InfeasibleSize   resource.Quantity
	OfflineExpansion bool

	SharedAttach bool
	MaxVolumes   int

	Claim      func() volume.VolumeOptions
	Infeasible map[string]volume.VolumeOptions
	OtherNode  *v1.Node

	Backing         func(spec *volume.Spec) string
	NoMetrics       bool
	Plain           bool
	Directory       string
	Ephemeral       bool
	Keeps           func(name string) bool
	Arguments       Arguments
	RuntimeReadOnly bool
	SELinuxRelabel  bool
}

// A Handling is the reaction of a plugin to an argument, see volumetest.Handling.
type Handling int

// The handlings, see volumetest's constants of the same names.
const (
	Refused Handling = iota
	Ignored
	Honoured
)

// Arguments lists a plugin's handling of arguments, see volumetest.Arguments.
type Arguments struct{ FsUser, FsGroup, DesiredSize, SELinuxLabel Handling }
