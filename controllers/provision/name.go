package provision

// Annotations and finalizers of Kubernetes that the controller reads or writes.
const (
	// ProvisionerAnnotation of a claim names the provisioner that the binder requests. Clusters may
	// have the older BetaProvisionerAnnotation instead.
	ProvisionerAnnotation     = "volume.kubernetes.io/storage-provisioner"
	BetaProvisionerAnnotation = "volume.beta.kubernetes.io/storage-provisioner"
	// SelectedNodeAnnotation of a claim names the node that the scheduler has selected.
	SelectedNodeAnnotation = "volume.kubernetes.io/selected-node"
	// ProvisionedByAnnotation of a volume names its provisioner, MigratedToAnnotation the driver
	// that has replaced this provisioner.
	ProvisionedByAnnotation = "pv.kubernetes.io/provisioned-by"
	MigratedToAnnotation    = "pv.kubernetes.io/migrated-to"
	// VolumeFinalizer keeps the object of a volume until its storage is deleted.
	VolumeFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
)

// pluginFinalizer is the VolumeFinalizer of a binder's plugins.
const pluginFinalizer = "kubernetes.io/pv-controller"

// ClaimFinalizer keeps a claim while storage may exist for it that no volume describes. It is our
// own: other provisioners forget such storage when they are restarted.
const ClaimFinalizer = "provision.volumekit.io/claim"

// DiscardAnnotation marks a claim whose storage a controller discards, or has discarded, because no object
// can be stored for it. A controller that stores an object for the claim then calls Provision once more.
const DiscardAnnotation = "provision.volumekit.io/discard"

// noProvisioner is the provisioner of classes whose volumes an administrator creates.
const noProvisioner = "kubernetes.io/no-provisioner"

// Reasons of events.
const (
	reasonProvisioning = "Provisioning"
	reasonProvisioned  = "ProvisioningSucceeded"
	reasonFailed       = "ProvisioningFailed"
	reasonInUse        = "VolumeDelete"
	reasonFailedDelete = "VolumeFailedDelete"
)

// Names of metrics. Those of claims have the labels class and source, the kind of the claim's data
// source; those of volumes have the label class.
const (
	ProvisionTotal       = "controller_persistentvolumeclaim_provision_total"
	ProvisionFailedTotal = "controller_persistentvolumeclaim_provision_failed_total"
	ProvisionDuration    = "controller_persistentvolumeclaim_provision_duration_seconds"
	DeleteTotal          = "controller_persistentvolume_delete_total"
	DeleteFailedTotal    = "controller_persistentvolume_delete_failed_total"
	DeleteDuration       = "controller_persistentvolume_delete_duration_seconds"
)
