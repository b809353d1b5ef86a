package bind

// Annotations and finalizers of Kubernetes that the controller reads or writes.
const (
	// BoundByControllerAnnotation marks a reference that the controller has written: spec.claimRef of
	// a volume, or spec.volumeName of a claim. Without it a user, or the scheduler, has written the
	// reference.
	BoundByControllerAnnotation = "pv.kubernetes.io/bound-by-controller"
	// BindCompletedAnnotation marks a claim that has been bound: it is never bound to another volume.
	BindCompletedAnnotation = "pv.kubernetes.io/bind-completed"
	// PluginFinalizer keeps the object of a volume until a plugin of this program has deleted its
	// storage.
	PluginFinalizer = "kubernetes.io/pv-controller"
	// RecyclingAnnotation marks a volume whose recycling has begun and may not have ended. The binder
	// neither makes it Available nor binds it, and removes the annotation once the volume is recycled.
	RecyclingAnnotation = "bind.volumekit.io/recycling"

	preResizeAnnotation = "volume.alpha.kubernetes.io/pre-resize-capacity"
	yes                 = "yes"
	// ofKubernetes begins the names of plugins that are part of a binder's program: no external
	// program has such a name.
	ofKubernetes = "kubernetes.io/"
)

// Reasons of events.
const (
	reasonFailedBinding        = "FailedBinding"
	reasonVolumeMismatch       = "VolumeMismatch"
	reasonWaitForFirstConsumer = "WaitForFirstConsumer"
	reasonWaitForPodScheduled  = "WaitForPodScheduled"
	reasonExternalProvisioning = "ExternalProvisioning"
	reasonProvisioningFailed   = "ProvisioningFailed"
	reasonClaimLost            = "ClaimLost"
	reasonClaimMisbound        = "ClaimMisbound"
	reasonVolumeRecycled       = "VolumeRecycled"
	reasonFailedRecycle        = "VolumeFailedRecycle"
	reasonFailedDelete         = "VolumeFailedDelete"
	reasonUnknownPolicy        = "VolumeUnknownReclaimPolicy"
)

// Names of metrics. The first five are gauges, which [Controller.Gauges] returns.
const (
	TotalVolumes   = "pv_collector_total_pv_count"    // labels plugin_name, volume_mode
	BoundVolumes   = "pv_collector_bound_pv_count"    // label storage_class
	UnboundVolumes = "pv_collector_unbound_pv_count"  // label storage_class
	BoundClaims    = "pv_collector_bound_pvc_count"   // labels namespace, storage_class, volume_attributes_class
	UnboundClaims  = "pv_collector_unbound_pvc_count" // labels namespace, storage_class, volume_attributes_class
	// OperationErrorsTotal counts failed calls of plugins, with the labels plugin_name and operation_name:
	// provision, delete or recycle.
	OperationErrorsTotal = "volume_operation_total_errors"
	// RetroactiveClassTotal counts the writes of the default class to claims that were created without
	// one, also failed ones, and RetroactiveClassErrorsTotal counts the failed ones.
	RetroactiveClassTotal       = "retroactive_storageclass_total"
	RetroactiveClassErrorsTotal = "retroactive_storageclass_errors_total"
)
