package volumetest

// A Method is a method of a [FakePlugin], or of an object that it returns, by its name in
// package volume.
type Method string

// The methods that are counted and can be made to fail. SetUp and TearDown include SetUpAt and
// TearDownAt.
const (
	Init                Method = "Init"
	GetVolumeName       Method = "GetVolumeName"
	CanSupport          Method = "CanSupport" // cannot fail: faults only make it slow
	NewMounter          Method = "NewMounter"
	NewUnmounter        Method = "NewUnmounter"
	NewUnmounterAt      Method = "NewUnmounterAt"
	ConstructVolumeSpec Method = "ConstructVolumeSpec"
	SetUp               Method = "SetUp"
	TearDown            Method = "TearDown"
	GetMetrics          Method = "GetMetrics"

	NewAttacher        Method = "NewAttacher"
	NewDetacher        Method = "NewDetacher"
	CanAttach          Method = "CanAttach"
	Attach             Method = "Attach"
	VolumesAreAttached Method = "VolumesAreAttached"
	WaitForAttach      Method = "WaitForAttach"
	Detach             Method = "Detach"

	NewDeviceMounter   Method = "NewDeviceMounter"
	NewDeviceUnmounter Method = "NewDeviceUnmounter"
	GetDeviceMountRefs Method = "GetDeviceMountRefs"
	CanDeviceMount     Method = "CanDeviceMount"
	MountDevice        Method = "MountDevice"
	UnmountDevice      Method = "UnmountDevice"

	NewBlockVolumeMapper     Method = "NewBlockVolumeMapper"
	NewBlockVolumeUnmapper   Method = "NewBlockVolumeUnmapper"
	ConstructBlockVolumeSpec Method = "ConstructBlockVolumeSpec"
	SetUpDevice              Method = "SetUpDevice"
	MapPodDevice             Method = "MapPodDevice"
	UnmapPodDevice           Method = "UnmapPodDevice"
	TearDownDevice           Method = "TearDownDevice"

	NewProvisioner     Method = "NewProvisioner"
	Provision          Method = "Provision"
	NewDeleter         Method = "NewDeleter"
	Delete             Method = "Delete"
	Recycle            Method = "Recycle"
	ExpandVolumeDevice Method = "ExpandVolumeDevice"
	NodeExpand         Method = "NodeExpand"
)
