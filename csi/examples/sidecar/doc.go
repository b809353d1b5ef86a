// Sidecar runs beside a CSI driver, in place of external-provisioner, external-attacher, external-resizer,
// node-driver-registrar and livenessprobe, and accepts their flags.
//
//	kubectl apply -f rbac.yaml -f deployment.yaml -f daemonset.yaml
//	go run ./csi/examples/sidecar --csi-address=SOCKET --leader-election --http-endpoint=:8080
//	go run ./csi/examples/sidecar --csi-address=SOCKET --node-only --kubelet-registration-path=SOCKET
//
// The first one runs once for a cluster, or in several replicas with --leader-election: it runs those companions
// that the capabilities of the driver allow, see package sidecar. The second one runs on each node, and needs no API
// server. At --http-endpoint both serve /metrics; /healthz, which calls the driver, for the liveness probe of the
// driver's container; and /healthz/leader-election for that of the sidecar's.
//
// The rights in rbac.yaml are those for a driver with all capabilities. Remove the rule for secrets if no class and no
// volume of the driver names a Secret.
//
// # Flags
//
// The program takes each flag of external-provisioner v6.4.0, external-attacher v4.13.0, external-resizer v2.3.0, and of
// node-driver-registrar and livenessprobe, both v2. The name of a flag decides about its group, and --help prints it:
//
//   - Most select the same as there.
//   - Without effect, with a line in the log that says why: those of the log, of the limits of API calls,
//     --capacity-threads, --cloning-protection-threads, --snapshot-orphan-sweep-interval,
//     --max-entries, --max-grpc-log-length, --handle-volume-inuse-error, --connection-timeout, --automaxprocs,
//     --enable-pprof, --prevent-volume-mode-conversion=false, and those beside --node-deployment.
//   - Refused, because the program contradicts the flag: --node-deployment, and a --metrics-path other than /metrics.
//     Likewise refused are --capacity-ownerref-level above 2, and feature gates that have one state here.
//
// Where the five differ:
//
//   - --timeout is 15s, as with external-attacher, and that of all calls. --resize-timeout, --modify-timeout and
//     --probe-timeout, if given, win over it; with external-resizer a given --timeout wins.
//   - --worker-threads and --workers are one setting, the number of calls of each companion, and so are --resync and
//     --resync-period. The last one wins. The defaults are 100, as with external-provisioner, and never.
//   - --http-endpoint, --metrics-address and --health-port are one address with all paths: one of them may be given.
//     Without any, nothing is served: --health-port=9808 is the default of livenessprobe.
//   - --mode=kubelet-registration-probe ends at once with status 0, as with node-driver-registrar from v2.9 on.
//
// A driver without the capability PUBLISH_UNPUBLISH_VOLUME needs a CSIDriver object with attachRequired: false, or
// --mark-attached, with which this program marks its VolumeAttachments as attached, as external-attacher does.
//
// # Comparison
//
// A test takes the same steps of users, drivers and nodes with external-resizer and with this program, in 50
// situations ("make test-sidecars"). The claims, the volumes and the reasons of events are equal in the end, but for 5
// situations: a size is never made smaller, a node that has given up is asked again after a pause, a volume in use
// has no condition ControllerResizeError, and each growth on a node has its annotation. The annotation
// volume.kubernetes.io/storage-resizer is this program's alone. Two more tests do the same with external-attacher, in 125
// situations, and in 11 with a driver that lists its volumes: 30 and 2 differ, for the reasons in
// packages attachment and sidecar.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
package main
