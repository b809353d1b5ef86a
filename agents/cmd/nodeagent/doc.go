// Nodeagent is a volume agent for one node of a cluster: it sets up the volumes of the pods that
// are bound to the node, and tears them down when the pods have gone.
//
//	kubectl apply -f rbac.yaml -f rbac-csi.yaml
//	go run ./agents/cmd/nodeagent -kubeconfig FILE -node NAME -root DIR -disks /mnt/disks -csi
//
// It watches the pods of its node, and by name each claim, volume, ConfigMap and Secret that these
// pods use. It writes events of failures. While nothing changes it makes no call apart from
// watches and renewals of tokens, and with -register those for its Lease and its Node. It needs the rights of
// rbac.yaml, with -csi also those of rbac-csi.yaml, with -register those of rbac-register.yaml, and no others.
//
// An agent that starts during an outage of the API server waits for the end of the outage, and says
// so with each attempt to read its Node, at most every 30 seconds. It ends if the API server refuses
// its credentials. Outages of any length take no volume down.
//
// While its Node is missing, because it was deleted, the agent keeps the volumes of its pods, sets up those
// of further pods, and tears down those of deleted pods; the cluster deletes the pods of a missing
// node after some time. Volumes that a controller attaches are set up only with a Node, and the controller detaches them
// from a missing one after 6 minutes, while they are mounted. With -register the agent says every 10 seconds that the
// Node was deleted. Restart the agent then: it creates another Node, and registers its drivers there.
//
// The agent starts no containers: run it beside the program that does, which calls
// manager.Manager.WaitForAttachAndMount if it embeds the library as this program does. A pod keeps
// its volumes until the API server no longer has it, or shows it as finished; to delete a pod of a
// node without a kubelet, use --grace-period=0 --force.
//
// # CSI drivers
//
// With -csi drivers register by sockets in plugins_registry below -root, as with a kubelet, and the agent writes the
// drivers to the CSINode of its node. It gives the node the annotation
// volumes.kubernetes.io/controller-managed-attach-detach: a controller, such as agents/cmd/controlplane,
// attaches the volumes of drivers that attach, and the agent reports those in use in the status of the Node.
//
// The controller takes a node for dead that has not been Ready for 6 minutes, and detaches its volumes while they are
// mounted. Another program, or the agent with -register, has to keep the Node Ready while volumes are mounted: if the
// agent with -register is stopped, the cluster takes the node for unreachable after 40 seconds. Delete the pods of the
// node before you stop its agent for minutes.
//
// # The Node
//
// The Node object of -node must exist. For a node without a kubelet, -register creates it, renews its Lease every 10
// seconds, so that the cluster keeps the pods of the node, reads it as often, and reports Ready every 5 minutes and when
// the cluster has marked it otherwise. A Node that the agent creates has the taint volumekit.io/no-containers:NoSchedule,
// so that the scheduler binds only pods to it that tolerate each taint, as those of some DaemonSets: the agent starts no
// containers. Users set spec.nodeName, or remove the taint if another program starts the containers. A Node that exists
// keeps its taints: give one to a Node on which nothing starts containers.
//
// # Limits
//
// Local volumes are accepted below the directories of -disks, host paths at or below those of
// -host-paths, and nowhere else. On a terminal the agent shows a table, elsewhere it prints a line
// for each event, with failed lists and watches; client-go logs them to standard error, too.
// -metrics serves metrics to Prometheus at /metrics.
//
// Ended by a signal, even SIGKILL, the agent leaves the volumes as they are, and the next run
// continues. Two agents on one root are refused. "fileagent -status -root DIR" prints the mounts
// of each pod.
//
// The agent is not for the root of a kubelet: a program that takes over from a kubelet, and gives
// back, sets emptydir.Config.NoteFiles, hostpath.Config.InPlace and node.Config.HasContainers, see
// volume.Host. The agent sets none of them.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1
// otherwise.
package main
