// Package registration finds the CSI drivers of a node, and registers drivers, by the plugin
// registration API (pluginregistration v1) that a kubelet and node-driver-registrar use.
//
// A [Watcher] is the side of the node. It watches a directory, on a kubelet's node
// <root>/plugins_registry, for sockets; each socket serves the registration of one driver:
//
//	watcher, err := registration.New(registration.Config{Dir: dir, Node: csiNodes, Logger: logger})
//	if err != nil {
//		return err
//	}
//	go watcher.Run(ctx)
//	plugin := csi.New(csi.Config{Drivers: watcher, ...})
//
// [Serve] is the side of the driver: it registers a driver as node-driver-registrar does, in the process
// of the driver or beside it.
//
// # Registration
//
// For each socket the Watcher calls GetInfo, checks the answer, calls NodeGetInfo of the driver at
// the endpoint, registers the driver, writes it to the cluster by a [NodeWriter], and reports the
// result by NotifyRegistrationStatus. After a failure it reports the reason and begins again after a
// pause that doubles from [Config].Backoff to [Config].MaxBackoff. A driver is unregistered when its
// socket is removed.
//
// Each socket has a goroutine of its own, and each call a timeout: a driver that hangs, lies or
// fails delays no other driver.
//
// # Rules
//
// Sockets and answers are untrusted input:
//
//   - Entries whose names begin with a dot, symbolic links, and files that are no sockets are
//     ignored. Directories are searched, to a depth of 4, and 1,024 sockets at most are used.
//   - The type is CSIPlugin; a plugin of another type receives the status "not registered".
//   - The name is a DNS subdomain of at most 63 bytes, in upper or lower case.
//   - The highest supported version below 2.0 is at least 1.0.
//   - The endpoint is the absolute path of a socket, without "..", of at most 107 bytes. Without an
//     endpoint the driver serves at the registration socket.
//   - The node ID has 1 to 256 bytes, and the topology consists of valid labels.
//
// # Differences to the kubelet
//
//   - Of several sockets with one driver name the newest one is registered. When it is removed, the
//     next older one is. The kubelet refuses the newer one unless its version is higher, and
//     unregisters the driver when either socket is removed.
//   - If the API server does not respond, the driver is registered on the node nevertheless, so that
//     its volumes can be unpublished; the write to the cluster is repeated, and the driver receives
//     its status afterwards.
//   - Symbolic links to sockets are ignored.
//
// # Limits
//
// An entry of the CSINode object stays if its socket is removed while no Watcher runs, as with the
// kubelet. The allocatable count is read at the registration only.
//
// # Glossary
//
//   - socket: a Unix socket in the watched directory, on which a driver's registrar serves
//   - registrar: the server of the registration API, of one driver
//   - endpoint: the path of the socket on which the driver serves its CSI services
//   - claim: the name and the endpoint of a driver, from a valid answer of its registrar
//   - effective: of all claims with a driver name, the one from the newest socket
//   - attempt: one sequence of calls from GetInfo to NotifyRegistrationStatus
package registration
