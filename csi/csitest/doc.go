// Package csitest tests clients of CSI drivers.
//
// A [Driver] is a CSI driver in memory. It serves the services Identity, Controller and Node on a
// listener, at the path of a socket, or in the same process without a transport ([Driver.Conn]),
// which also works in a bubble of testing/synctest. The driver keeps the state of each volume,
// records each call, and reports each rule of the specification that the client has broken:
//
//	d := csitest.NewDriver(csitest.Config{Capabilities: csitest.Capabilities{
//		Node: []csipb.NodeServiceCapability_RPC_Type{csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME},
//	}})
//	... the client works with d.Conn() ...
//	violations := d.Violations()
//
// A [Fault] makes calls fail with any code, before or after their effect, makes them hang, kills the
// driver, or changes its answers. With Config.Mounter the driver mounts at its paths, so that a
// client that reads the mount table finds the mounts of a real driver there.
//
// Terms:
//
//   - A place is a path at which a volume is staged or published.
//   - The effect of a call is the change that the call makes to the state of its volume.
//   - An outcome is known to the client if the call succeeded, or if the code of its error says that
//     nothing has changed. After Canceled, DeadlineExceeded, Unavailable, ResourceExhausted and
//     Aborted, and after the client has given up, the outcome is unknown. ResourceExhausted of a
//     CreateVolume with a topology says that nothing was created.
//
// Limits: snapshots and volume groups are not implemented. SINGLE_NODE_WRITER allows several
// targets on a node, as in Kubernetes. Secrets, and the tokens of service accounts, may change
// between two calls.
//
// The package imports neither testing nor testify: a program may link a Driver.
package csitest
