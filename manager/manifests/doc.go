// Package manifests is a source of pods for package manager: a directory of files.
//
//	source, err := manifests.New(manifests.Config{Dir: "/etc/agent/manifests"})
//	go source.Run(ctx) // tells the manager of changes
//	m, err := manager.New(manager.Config{Source: source, ...})
//
// A file is YAML, of any number of documents, or JSON, with Pods,
// PersistentVolumeClaims, PersistentVolumes, ConfigMaps and Secrets of the API's
// version v1. It is added, changed and removed while the program runs: best by a
// rename, as editors do; a file that is written in its place is read once nobody has
// written to it for [Config.Settle]. Files whose names begin with a dot, or end with
// none of .yaml, .yml and .json, are passed over.
//
// # What is broken
//
// A file that is half-written, not understood, or wrong in one of its names counts as
// it was when it was last in order, as does one that holds nothing any more: pods go
// when their file goes. What was last in order is kept in [Config.Keep], so that it is
// known after a restart, too; if that is broken as well, there are no pods but an error
// until somebody has seen to it. A directory that cannot be read changes nothing. Each
// [Problem] names its file, document, object and, where it is about one, the field.
//
// # Pods
//
// A pod without a UID gets one that follows from all that its manifest says, and from
// the node, as the kubelet does it for static pods: a manifest that is changed is
// another pod of the same name. It does not follow from the file, so that pods may move
// between files. Of two pods with one name or UID, that of the first file by name
// counts. A volume of which no more than its name is said is an emptyDir.
//
// # Claims
//
// There is no control plane that binds claims; the source does what it would do. A
// claim that says nothing about its own state is bound to the volume that its
// spec.volumeName names, or whose spec.claimRef names it. The first claim by name gets
// a volume that several name. The claims of ephemeral volumes are made from their
// templates. A pod that is up keeps the volume that it has if its claim is given another
// one, until the pod goes. Nothing is scheduled or provisioned: storage classes, sizes
// and affinity are not looked at.
//
// What the manager and the plugins check is not checked here: sources of volumes,
// paths, options.
package manifests
