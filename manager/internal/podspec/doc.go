// Package podspec reads in a pod's specification and status which of its volumes its containers
// need. All functions are pure.
//
// # Glossary
//
//   - use: how the containers of a pod use a volume: they mount it, or have it as a device
//   - claim of a volume: the claim that the volume names, or that is created for it
//   - terminated: the pod's containers have ended and do not start again
//   - has run: a container of the pod runs or has run
package podspec
