// Package service turns a controller into a program that runs beside an API server: the connection to the API
// server, repeated attempts at the start, leader election, and endpoints for metrics and health.
//
//	config, err := service.ClientConfig(kubeconfig)
//	clientset, err := service.Connect(config)
//	leadership, err := service.NewLeadership(clientset.CoordinationV1(), namespace, name)
//	listener, err := service.Listen(ctx, ":8080")
//	err = service.Service{Work: controller.Run, Leadership: leadership, Collector: collector}.Run(ctx, listener)
//
// A [Leadership] runs the work while the process holds a Lease, with the periods of Kubernetes' own controllers.
// It ends the context of the work before the Lease expires, also while the API server hangs, and releases the
// Lease only after the work has returned: two replicas never work at the same time, as long as the work ends
// with its context within three seconds.
//
// The package links client-go's clientset and the client of Prometheus; controllers link neither. Use it in
// programs, and not in libraries. NewLeadership requires the rights get, create and update of leases.
//
// # Words
//
//   - work: the function that runs the controllers until its context ends.
//   - term: the time from an election to the loss of the Lease.
//   - health: the answer at /healthz: 200 unless the replica holds the Lease and could not renew it in time, or
//     Service.Health returns an error.
package service
