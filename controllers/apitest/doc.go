// Package apitest is a Kubernetes API server in memory, for tests of controllers: with watches,
// conflicts and finalizers as the real one has them, and with faults.
//
//	server := apitest.NewServer(apitest.Config{Seed: 1})
//	cluster := server.Connect("provisioner") // an api.Cluster for the code under test
//	test := server.Direct()                  // another one for the test, without faults
//
// # Features
//
// The server has all kinds of [api.Cluster]. The rules that controllers rely on hold:
//
//   - versions, conflicts and UIDs; names that the server generates; creation and deletion
//     times; the generation of pods and CSI drivers
//   - finalizers, grace periods of pods, preconditions, dry runs; an update that changes nothing
//     has no new version and no event
//   - the status subresource; merge patches, strategic merge patches and JSON patches
//   - defaults, immutable fields and the validation of storage objects; protection finalizers and
//     the default class of new claims; a claim may grow only if it is bound and its class allows
//     expansion
//   - label selectors, and the field selectors of each kind
//   - lists at a version and in pages; watches from a version, with bookmarks and initial events;
//     an object that begins or ends to match a selector is added or deleted; 410 Gone for versions
//     that [Server.Compact] or the limit of the history has dropped
//   - tokens of service accounts, in form and claims
//
// [Cluster.Handler] serves the same by HTTP, for clients of client-go and controller-runtime.
//
// [TestCluster] is the contract. The tests of this package run it on this server and on a real
// kube-apiserver.
//
// # Limits
//
//   - No controllers run: no garbage collection, no removal of namespaces, no scheduler.
//     Tests call [Server.RemoveNamespace] and [Server.BindPod] instead.
//   - No authorization, no quotas, no managed fields, no server-side apply. Fields of a type that
//     no rule above names are stored unchecked.
//   - Tolerations and service accounts are not added to pods.
//
// # Faults
//
// A [Fault] delays or fails the calls that it selects, before or after they take effect, or
// crashes the process that makes them; an [EventFault] delays or loses events of watches, or cuts
// them. [Server.StartOutage], [Server.HoldEvents] and [Server.CutWatches] concern all calls of a
// process. Random faults depend on the seed alone: equal calls get equal faults, in whatever
// order goroutines make them. In a bubble of testing/synctest all times are those of the bubble.
//
// # Words
//
//   - call: one request to the server; recorded calls are in [Server.Calls].
//   - change: the step of an object from one version to the next; watchers share it.
//   - cluster: the connection of one process to the server.
//   - compact: drop old changes, so that watches and lists from their versions fail.
//   - identity: the name of a process in calls and faults; a process and its successor share one.
//   - kind: the objects of one type, and the rules for them.
//   - part: the main part or the status of an object; an update replaces one of them.
//   - selection: the objects that a namespace, labels and fields select.
//   - trigger: a field with a value; changes of other objects do not reach a watch with a trigger.
//   - version: metadata.resourceVersion. It counts the writes of all kinds.
//
// The package imports neither testing nor testify, so that a program that uses a Server, such as
// for a dry run, links neither.
package apitest
