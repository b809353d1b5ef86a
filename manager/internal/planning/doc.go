// Package planning compares the desired and the actual state of the world, and returns the
// operations to start. It is a pure function.
//
// # Glossary
//
//   - schedule: the state that holds operations back: in-flight operations, backoffs, leftovers,
//     unreported volumes
//   - planner: finds the next operation of one volume
//   - shared step: attach or mount device, once for all pods
//   - recreated: deleted and created again under the same name; the old volume goes first
//   - occupied: a directory or a device mount path that another volume has, or may have
//   - for readers: mounted read-only for pods that only read, while another pod writes
//   - kept: a pod with unresolved volumes, whose existing volumes stay
//   - release: unmount for all pods and detach, when no pod has or needs the volume
//   - leftover: an unrecognized path; a volume that it may be is not released
//   - wait reason: why a pod waits without a failure
package planning
