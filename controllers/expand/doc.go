// Package expand makes volumes as large as their claims request: the work of the expand controller of
// kube-controller-manager, for volume plugins, and of the sidecar external-resizer, for any [Expander].
//
//	controller, err := expand.New(expand.Config{
//		Cluster:  kubeclient.New(clientset),
//		Expander: expand.FromPlugins(plugins),
//	})
//	err = controller.Run(ctx)
//
// # An expansion
//
// A claim whose request is above the capacity in its status receives
//
//  1. the size and the state ControllerResizeInProgress in its status, with the condition Resizing and
//     [ResizerAnnotation],
//  2. larger storage, by [Expander].Expand,
//  3. the new capacity of its volume, with [CapacityBeforeAnnotation] if a node has to finish,
//  4. the new capacity in its status, with [CompleteAnnotation]; or the state NodeResizePending, with the
//     condition FileSystemResizePending: then the node grows the file system and writes the capacity
//     (package node, or the kubelet), and the controller removes CapacityBeforeAnnotation.
//
// Each write names the version of its object. No write makes a size smaller, and none shows a capacity
// that no Expander and no node has reported. A process that ends between two steps leaves a state from
// which the next one continues. Whether the class of the claim allows expansion is checked by the API
// server (admission plugin PersistentVolumeClaimResize).
//
// # Recovery
//
// While the outcome of an expansion is open, it is repeated with its size. After a final error the size
// is that of the request, which the user may have reduced to any size above the capacity in the status
// (KEP 1790). An infeasible size has the state ControllerResizeInfeasible and is tried again after
// [Config].RetryInfeasible, or when the request changes. A node that has given up (NodeResizeInfeasible)
// is asked again after the same pause.
//
// # Calls to the API server
//
// A patch of the claim, one of the volume, and one of the claim: three for an expansion, one more if a node
// finishes it. An attempt without a first write reads the claim instead. An idle controller makes no calls
// but watches.
//
// The Controller requires these rights: get, list, watch and patch of persistentvolumes; get, list and
// watch of persistentvolumeclaims, and patch of persistentvolumeclaims/status.
//
// # Differences from kube-controller-manager and external-resizer
//
//   - After a final error the refused size is never repeated if the request is another one, also while the
//     volume is larger than both.
//   - A volume that is in use and grows only offline is tried again with backoff; pods are not watched.
//   - A node that has given up is asked again after a pause, not at once.
//   - Each text of an event is sent once in a row for a claim.
//   - The annotation of the volume is written with its capacity, in one write.
//   - [CompleteAnnotation] is also set for volumes of plugins.
//
// # Words
//
//   - claim, volume: the objects PersistentVolumeClaim and PersistentVolume.
//   - request: the size in the spec of the claim. Capacity: the size in the status of the claim.
//   - open: of an outcome that is not known. Settled: of a call that has ended without an effect.
package expand
