package protect

// Finalizers of Kubernetes.
const (
	// ClaimFinalizer keeps a claim that is being deleted until no pod uses it.
	ClaimFinalizer = "kubernetes.io/pvc-protection"
	// VolumeFinalizer keeps a volume that is being deleted until no claim is bound to it.
	VolumeFinalizer = "kubernetes.io/pv-protection"
)

// UnusedCondition is the type of the condition of bound claims that reports whether a pod uses the claim.
const UnusedCondition = "Unused"

// Reasons of UnusedCondition.
const (
	reasonUsed   = "PodUsingPVC"
	reasonUnused = "NoPodsUsingPVC"
)

// reasonFailed is the reason of events of pods without the claim of an ephemeral volume.
const reasonFailed = "FailedBinding"

// Names of metrics, without labels.
const (
	// EphemeralCreateTotal counts the attempts to create a claim, EphemeralCreateFailuresTotal those that
	// failed.
	EphemeralCreateTotal         = "ephemeral_volume_controller_create_total"
	EphemeralCreateFailuresTotal = "ephemeral_volume_controller_create_failures_total"
)
