// Package modify gives volumes the attributes classes that their claims ask for (KEP 3751): the work of the
// sidecar external-resizer for VolumeAttributesClasses, for any [Modifier].
//
//	controller, err := modify.New(modify.Config{Cluster: kubeclient.New(clientset), Modifier: driver})
//	err = controller.Run(ctx)
//
// # A change
//
// A bound claim whose spec names another attributes class than its status receives
//
//  1. the class as the target and the state InProgress in its status, with the condition ModifyingVolume,
//  2. the parameters of the class in its volume, by [Modifier].Modify,
//  3. the class in the spec of its volume,
//  4. the class in its status, without a target and without the condition.
//
// Each write names the version of its object. A process that ends between two steps leaves a state from which
// the next one continues. A claim without a class keeps its volume as it is.
//
// A class that does not exist has the state Pending, and is looked for again after Config.Backoff to
// Config.MaxBackoff. A final error of the Modifier is in the condition ModifyVolumeError. An infeasible class,
// and one of another driver, has the state Infeasible, and is tried again after Config.RetryInfeasible, or when
// the claim names another class. A claim that names its present class again gives up a change that has had no
// effect; if an earlier call of the change may have had one, or an earlier run of the program has made it, the
// volume receives the present class once more.
//
// While the outcome of a change is open, it is repeated for its class, also if the claim names another one. If that class
// was deleted, so that a later run of the program cannot repeat the call, the volume receives the class that
// the claim names, also if it is the present one.
//
// Two controllers of one driver at the same time can leave the attributes of another class than the status shows:
// run the controller under leader election.
//
// # Calls to the API server
//
// Two reads of the class, two patches of the claim and one of the volume. An idle controller makes no calls but
// watches. The Controller requires these rights: get, list, watch and patch of persistentvolumes; get, list and
// watch of persistentvolumeclaims, and patch of persistentvolumeclaims/status; get of volumeattributesclasses.
//
// # Differences from external-resizer
//
//   - A change whose outcome is open is repeated for its class, not for the one that the claim names now.
//   - A class of another driver is infeasible.
//   - A change that was given up leaves no target.
//   - Each text of an event is sent once in a row for a claim.
//
// # Words
//
//   - claim, volume, class: the objects PersistentVolumeClaim, PersistentVolume and VolumeAttributesClass.
//   - target: the class of a change that has begun. Present: of the class in the status of the claim.
//   - open: of an outcome that is not known. Settled: of a call that has ended without an effect.
package modify
