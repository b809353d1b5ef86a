package volume

import "context"

// A BlockVolume is a volume that is a device on this node. Paths are computed
// and need not exist.
type BlockVolume interface {
	// GetGlobalMapPath returns the directory with one entry per pod that uses the
	// volume's device.
	GetGlobalMapPath(spec *Spec) (string, error)
	// GetPodDeviceMapPath returns the directory of the pod's block volumes, and the
	// name of this volume in it.
	GetPodDeviceMapPath() (dir, name string)
	MetricsProvider
}

// BlockVolumePaths are the paths of a block volume's device on this node. The caller passes
// those that it knows: after a restart perhaps none but GlobalMapPath.
type BlockVolumePaths struct {
	// DevicePath is the result of WaitForAttach. Empty: the volume is not attached.
	DevicePath string
	// GlobalMapPath is the result of GetGlobalMapPath.
	GlobalMapPath string
	// StagingPath is the result of SetUpDevice. Empty: SetUpDevice returned none, or has not
	// returned.
	StagingPath string
}

// A BlockVolumeMapper makes a device available to a pod. The caller calls SetUpDevice before
// MapPodDevice, and both again after a restart.
type BlockVolumeMapper interface {
	BlockVolume
	// SetUpDevice prepares the device on this node, for all pods, and returns the path at
	// which it is staged, which may be empty. It is idempotent. After an error nothing is
	// prepared, unless the error wraps [ErrUncertain].
	SetUpDevice(ctx context.Context, paths BlockVolumePaths) (stagingPath string, err error)
	// MapPodDevice makes the device available to the pod and returns the path of
	// the device. Empty: the device is StagingPath, or else DevicePath. It is idempotent.
	// After an error the device is not available, unless the error wraps [ErrUncertain].
	MapPodDevice(ctx context.Context, paths BlockVolumePaths) (devicePath string, err error)
}

// A BlockVolumeUnmapper undoes the work of a [BlockVolumeMapper]. It works after a restart:
// state on disk is enough.
type BlockVolumeUnmapper interface {
	BlockVolume
	// UnmapPodDevice removes the device from the pod. If the device is not
	// mapped it returns nil.
	UnmapPodDevice(ctx context.Context) error
	// TearDownDevice undoes SetUpDevice. The caller has unmapped the device from all pods.
	// It is idempotent.
	TearDownDevice(ctx context.Context, paths BlockVolumePaths) error
}
