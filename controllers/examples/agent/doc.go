// Package agent is an example: the smallest agent that keeps the volumes of a node of a cluster.
// A program passes kubeclient.New(clientset), with a rest.Config whose QPS is -1, and
// mount.New(mount.Config{}). docs/cluster.md has this agent; agents/cmd/nodeagent
// is a whole one, with CSI drivers and the rights that it needs.
package agent
