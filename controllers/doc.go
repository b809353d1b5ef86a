// Package controllers is the index of the cluster side of volumekit: the programs that run
// beside a Kubernetes API server. This package itself is empty; programs import the packages
// below one by one. It is a module of its own, so that programs that only mount do not require
// k8s.io/client-go.
//
//	go get github.com/volumekit/volumekit/controllers
//
// Until the first release, a program needs replace lines to a clone for this module and for the
// root module.
//
// # Packages
//
//   - api: the API server as controllers use it: a client for each kind, caches, and reads that
//     see a controller's own writes.
//     [github.com/volumekit/volumekit/controllers/api]
//   - apitest: an API server in memory with faults, for tests of controllers.
//     [github.com/volumekit/volumekit/controllers/apitest]
//   - node: the pods of a node, the objects that their volumes use, and the node's side of
//     attaching by a controller, for package manager.
//     [github.com/volumekit/volumekit/controllers/node]
//   - provision: provisions volumes for claims, and deletes the storage of released volumes.
//     [github.com/volumekit/volumekit/controllers/provision]
//   - protect: protects claims and volumes in use, and creates the claims of ephemeral volumes.
//     [github.com/volumekit/volumekit/controllers/protect]
//   - bind: binds claims to volumes, and reclaims volumes whose claims are gone.
//     [github.com/volumekit/volumekit/controllers/bind]
//   - expand: makes the volumes of claims as large as the claims request.
//     [github.com/volumekit/volumekit/controllers/expand]
//   - attachment: fulfils VolumeAttachments by the calls of a driver.
//     [github.com/volumekit/volumekit/controllers/attachment]
//   - attach: attaches the volumes of pods to their nodes, and detaches them.
//     [github.com/volumekit/volumekit/controllers/attach]
//   - kubeclient: these clients from a clientset of client-go, and events. It is the only package
//     that links the clientset.
//     [github.com/volumekit/volumekit/controllers/kubeclient]
//   - metrics: exports metrics to Prometheus, the only package that links its client.
//     [github.com/volumekit/volumekit/controllers/metrics]
//   - service: leader election, and endpoints for metrics and health, for programs.
//     [github.com/volumekit/volumekit/controllers/service]
//   - examples/agent: the smallest agent for a node of a cluster, which docs/cluster.md shows.
//     [github.com/volumekit/volumekit/controllers/examples/agent]
//   - agents/cmd/nodeagent: a whole one, with its rights, in module agents.
//     [github.com/volumekit/volumekit/agents/cmd/nodeagent]
//   - examples/provisioner: a provisioner in 40 lines, with an API server in memory.
//     [github.com/volumekit/volumekit/controllers/examples/provisioner]
//   - agents/cmd/nfsprovisioner: a provisioner of directories of an NFS export, with its manifests.
//     [github.com/volumekit/volumekit/agents/cmd/nfsprovisioner]
//   - agents/cmd/localprovisioner: provisions directories of nodes for claims, with its manifests.
//     [github.com/volumekit/volumekit/agents/cmd/localprovisioner]
//   - agents/cmd/controlplane: the controllers of a cluster under the names of kube-controller-manager,
//     with its manifests.
//     [github.com/volumekit/volumekit/agents/cmd/controlplane]
//   - examples/clientgo: the client with which package recycler runs its pods, over client-go.
//     [github.com/volumekit/volumekit/controllers/examples/clientgo]
//
// # Versions
//
// The module requires the oldest supported client-go, as the root module requires the oldest
// supported Kubernetes API. A program may require a newer one.
package controllers
