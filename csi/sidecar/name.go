package sidecar

// reserved is the beginning of the parameters of a class that are for this package, and of those that it
// adds for the driver.
const reserved = "csi.storage.k8s.io/"

// Parameters of classes and of CreateVolume.
const (
	fsTypeKey = reserved + "fstype"
	// plainFSTypeKey is the older key of fsTypeKey, in upper or lower case. The driver receives it, too.
	plainFSTypeKey = "fstype"

	claimNameKey      = reserved + "pvc/name"
	claimNamespaceKey = reserved + "pvc/namespace"
	volumeNameKey     = reserved + "pv/name"
)

// Annotations of volumes that name the Secret of DeleteVolume. They are empty for a volume without one.
const (
	deletionSecretNameAnnotation      = "volume.kubernetes.io/provisioner-deletion-secret-name"
	deletionSecretNamespaceAnnotation = "volume.kubernetes.io/provisioner-deletion-secret-namespace"
)

// Annotations of volumes that name the Secret of ControllerModifyVolume, as external-provisioner writes them. They are
// absent from a volume whose class names none.
const (
	modifySecretNameAnnotation      = "volume.kubernetes.io/controller-modify-secret-name"
	modifySecretNamespaceAnnotation = "volume.kubernetes.io/controller-modify-secret-namespace"
)

// Labels of CSIStorageCapacity objects, as external-provisioner has them, so that its objects are continued.
const (
	capacityDriverLabel  = reserved + "drivername"
	capacityManagerLabel = reserved + "managed-by"
	capacityManager      = "external-provisioner"
)

// CallDuration is the metric of each call of the driver, a histogram with the labels driver_name,
// method_name and grpc_status_code, as Kubernetes' sidecars have it.
const CallDuration = "csi_sidecar_operations_seconds"

// snapshotGroup is the API group of VolumeSnapshots.
const snapshotGroup = "snapshot.storage.k8s.io"
