// Package ctrlruntime runs the controllers of this library in a manager of controller-runtime, beside the reconcilers
// that the manager has already. They share its caches, connections, recorder of events, registry of metrics, logger,
// leader election and checks of readiness.
//
//	mgr, err := ctrl.NewManager(config, ctrl.Options{LeaderElection: true, LeaderElectionID: "storage.example.com"})
//	host, err := ctrlruntime.New(ctx, mgr, "storage")
//	provisioning, err := provision.New(provision.Config{
//		Name: "storage.example.com", Provisioner: mine, Cluster: host.Cluster,
//		Claims: host.Claims, Volumes: host.Volumes, Classes: host.Classes,
//		Events: host.Events, Metrics: host.Metrics, Logger: host.Logger,
//	})
//	err = host.Add("provision", provisioning)
//	err = mgr.Start(ctx)
//
// # Requirements
//
// The scheme of the manager has the kinds of Kubernetes, as client-go's scheme has. Its cache holds all objects of the
// kinds that a controller reads, with all fields: no cache tells of the selectors and transformations in
// cache.Options.ByObject and DefaultTransform. A transformation may drop managed fields, and nothing else.
//
// The program ends when Start of the manager returns: it has lost its Lease, or was asked to stop. With
// LeaderElectionReleaseOnCancel the manager releases the Lease after the controllers have returned, as long as
// they do so within its GracefulShutdownTimeout; a provisioner returns when the context of its call ends.
//
// The module requires controller-runtime v0.20.0 or later.
package ctrlruntime
