// Package manifests is a source of pods for package manager: a directory of files.
//
//	source, err := manifests.New(ctx, manifests.Config{Dir: "/etc/agent/manifests"})
//	go source.Run(ctx) // reports changes to the manager
//	m, err := manager.New(manager.Config{Pods: source, Claims: source, ...})
//
// A file is YAML, of any number of documents, or JSON, with Pods,
// PersistentVolumeClaims, PersistentVolumes, ConfigMaps and Secrets of the API version v1,
// or a List of them, as kubectl get -o yaml prints it. Files may be added, changed and
// removed while the program runs: best by a rename, as editors do; a file that is written
// in place is read after no program has written to it for [Config.Settle]. Files whose
// names begin with a dot, or do not end with .yaml, .yml or .json, are ignored.
//
// # Invalid files
//
// A file that is half-written, does not parse, has an invalid name or no object counts with
// its last valid content: its pods are removed only when the file is removed. The last valid
// content is stored in [Config.Keep], to be available after a restart, too; if that copy is
// invalid as well, Pods returns an error until one of the two is mended. A directory that
// cannot be read changes nothing. Each [Problem] names its file, document, object and, for an
// error of one field, the field.
//
// # Pods
//
// A pod without a UID gets one computed from its whole manifest and the node, as the kubelet
// does for static pods: a changed manifest is another pod of the same name. The UID does not
// depend on the file, so that pods may move between files. Of two pods with one name or UID,
// the pod of the first file by name counts. A volume that has only a name is an emptyDir.
//
// # Claims
//
// There is no control plane that binds claims; the source binds them. A claim without a
// status is bound to the volume that its spec.volumeName names, or whose spec.claimRef names
// it. If several claims name one volume, the first claim by name gets it. The claims of
// ephemeral volumes are made from their templates. If the claim of a running pod is given
// another volume, the pod keeps its volume until it is removed. Nothing is scheduled or
// provisioned: storage classes, sizes and affinity are ignored.
//
// This package does not repeat the checks of the manager and the plugins: sources of volumes,
// paths, options.
//
// # Without a manager
//
// [Parse] returns the objects of one manifest, and [Volumes] the specifications of the
// volumes of a pod, for a program that sets them up by itself, such as
// examples/podvolumes. Errors name the document and the field.
package manifests
