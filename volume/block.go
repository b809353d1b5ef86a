package volume

import "context"

// A BlockVolume is a volume that is a device on this node. Paths are computed
// and need not exist.
type BlockVolume interface {
	// GetGlobalMapPath returns the directory with one entry per pod that uses the
	// volume's device.
	GetGlobalMapPath(spec *Spec) (string, error)
	// GetPodDeviceMapPath returns the directory of the pod's block volumes, and the
	// name of this one in it.
	GetPodDeviceMapPath() (dir, name string)
	MetricsProvider
}

// A BlockVolumeMapper makes a device available to a pod.
type BlockVolumeMapper interface {
	BlockVolume
	// SetUpDevice prepares the device on this node, for all pods, and returns a
	// path to find it at, which may be empty. It is idempotent.
	SetUpDevice(ctx context.Context) (stagingPath string, err error)
	// MapPodDevice makes the device available to the pod and returns the path of
	// the device. It is idempotent. After an error it is not available, unless
	// the error wraps [ErrUncertain].
	MapPodDevice(ctx context.Context) (devicePath string, err error)
}

// A BlockVolumeUnmapper undoes what a [BlockVolumeMapper] did, from what is on
// disk alone.
type BlockVolumeUnmapper interface {
	BlockVolume
	// UnmapPodDevice takes the device away from the pod. A device that is not
	// mapped is no error.
	UnmapPodDevice(ctx context.Context) error
	// TearDownDevice undoes SetUpDevice for the device at devicePath, whose pods
	// have all been unmapped from mapPath. It is idempotent.
	TearDownDevice(ctx context.Context, mapPath, devicePath string) error
}
