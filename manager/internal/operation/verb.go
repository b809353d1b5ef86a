package operation

// A Verb is the kind of an operation. Operations start in the order of the verbs.
type Verb int

const (
	TearDown      Verb = iota // remove the volume from a pod
	Attach                    // attach it to the node, and wait for its device
	MountDevice               // mount or map it once for all pods
	SetUp                     // set it up for a pod
	Expand                    // grow its file system
	UnmountDevice             // undo MountDevice
	Detach                    // undo Attach

	// LastVerb is the last of the verbs.
	LastVerb = Detach
)

// A verbText holds the names of an operation.
type verbText struct {
	name                string
	metric, blockMetric string // in metrics, and in those of block devices
}

// verbs are the names of all verbs.
var verbs = [...]verbText{
	TearDown:      {"tear down", "volume_unmount", "unmap_volume"},
	Attach:        {"attach", "volume_attach", "volume_attach"},
	MountDevice:   {"mount device", "device_mount", "device_mount"},
	SetUp:         {"set up", "volume_mount", "map_volume"},
	Expand:        {"expand", "volume_fs_resize", "volume_fs_resize"},
	UnmountDevice: {"unmount device", "unmount_device", "unmap_device"},
	Detach:        {"detach", "volume_detach", "volume_detach"},
}

// String returns the name of the verb for people.
func (v Verb) String() string { return verbs[v].name }

// Metric returns the kubelet's name of the operation in metrics.
func (v Verb) Metric() string { return verbs[v].metric }

// BlockMetric is Metric for an operation of a block device.
func (v Verb) BlockMetric() string { return verbs[v].blockMetric }

// BringsUp reports whether operations of the verb attach, mount or set up.
func BringsUp(v Verb) bool { return v == Attach || v == MountDevice || v == SetUp }

// TakesDown reports whether operations of the verb detach, unmount or tear down.
func TakesDown(v Verb) bool { return v == TearDown || v == UnmountDevice || v == Detach }
