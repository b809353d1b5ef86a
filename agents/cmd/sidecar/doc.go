// Sidecar runs beside a CSI driver, in place of external-provisioner, external-attacher, external-resizer,
// node-driver-registrar and livenessprobe, and accepts their flags.
//
//	kubectl apply -f rbac.yaml -f deployment.yaml -f daemonset.yaml
//	go run ./agents/cmd/sidecar --csi-address=SOCKET --leader-election --http-endpoint=:8080
//	go run ./agents/cmd/sidecar --csi-address=SOCKET --node-only --kubelet-registration-path=SOCKET
//
// The first one runs once for a cluster, or in several replicas with --leader-election: it runs those companions
// that the capabilities of the driver allow, see package csi/sidecar. The second one runs on each node, and needs no API
// server. At --http-endpoint both serve /metrics; /healthz, which calls the driver, for the liveness probe of the
// driver's container; and /healthz/leader-election for that of the sidecar's.
//
// The rights in rbac.yaml are those for a driver with all capabilities. Remove the rule for secrets if no class and no
// volume of the driver names a Secret.
//
// # Flags
//
// The program takes each flag of external-provisioner v6.4.0 (p), external-attacher v4.13.0 (a), external-resizer v2.3.0
// (r), node-driver-registrar v2 (n) and livenessprobe v2 (l), and a few flags of its own. The log
// names each flag without effect that is set, with the reason, unless the program does what the flag asks. --help
// prints the defaults. A feature gate that has one state here refuses the other one.
//
//	--add_dir_header                    nl     without effect: the lines of the log have no such headers
//	--alsologtostderr                   nl     without effect: the log is written to standard error
//	--alsologtostderrthreshold          nl     without effect: the log is written to standard error
//	--automaxprocs                      parnl  without effect: the Go runtime follows the CPU limit of the container
//	--capacity-for-immediate-binding    p      also for classes that do not wait for the first consumer
//	--capacity-ownerref-level           p      the owner of the objects: NUMBER 0 for the pod, 1 for its controller, 2
//	                                           for that of its ReplicaSet, -1 for none
//	--capacity-poll-interval            p      the TIME between two queries of the capacity
//	--capacity-threads                  p      without effect: the capacities are queried one after the other
//	--cloning-protection-threads        p      without effect: the source of a copy has no finalizer
//	--connection-timeout                n      without effect: node-driver-registrar ignores it as well
//	--controller-publish-readonly       p      create read-only volumes for claims whose only access mode is ReadOnlyMany
//	--csi-address                       parnl  the SOCKET of the driver
//	--default-fstype                    pa     the TYPE of the file system of volumes whose class has none
//	--enable-capacity                   p      publish the storage capacity of the driver
//	--enable-pprof                      pn     without effect: no profiles are served
//	--extra-create-metadata             p      pass the names of claim and volume to the driver
//	--extra-modify-metadata             r      pass the names of claim and volume to the driver with the parameters of a
//	                                           volume attributes class
//	--feature-gates                     par    LIST of NAME=BOOL: Topology can be switched off
//	--handle-volume-inuse-error         r      without effect: a volume in use is tried again with the pauses of other
//	                                           failures, and pods are not watched
//	--health-port                       nl     the same as --http-endpoint=:PORT, if it is more than 0
//	--http-endpoint                     parnl  serve /metrics, /healthz and /healthz/leader-election at HOST:PORT
//	                                           (default: no)
//	--immediate-topology                p      pass the topologies of all nodes to the driver if no node is selected
//	--kube-api-burst                    par    without effect: the API server limits the calls of its clients
//	--kube-api-capacity-burst           p      without effect: the API server limits the calls of its clients
//	--kube-api-capacity-qps             p      without effect: the API server limits the calls of its clients
//	--kube-api-qps                      par    without effect: the API server limits the calls of its clients
//	--kubeconfig                        par    the FILE with the address of the API server and the credentials (default:
//	                                           the service account)
//	--kubelet-registration-path         n      register the driver with the kubelet, which sees the socket at this PATH
//	--leader-election                   par    work only while holding a Lease
//	--leader-election-labels            par    the labels of the Lease, a LIST of KEY:VALUE
//	--leader-election-lease-duration    par    the TIME after the last renewal of the Lease before another process
//	                                           acquires it
//	--leader-election-namespace         par    the NAMESPACE of the Lease (default: that of the service account)
//	--leader-election-renew-deadline    par    the TIME for which the holder tries to renew the Lease
//	--leader-election-retry-period      par    the TIME between two attempts to acquire or renew the Lease
//	--legacy_stderr_threshold_behavior  nl     without effect: the log is written to standard error
//	--log-flush-frequency               parnl  without effect: the log has no buffer
//	--log-json-info-buffer-size         parnl  without effect: the log has no buffer
//	--log-json-split-stream             parnl  without effect: the log is written to standard error
//	--log-text-info-buffer-size         parnl  without effect: the log has no buffer
//	--log-text-split-stream             parnl  without effect: the log is written to standard error
//	--log_backtrace_at                  nl     without effect: the log has one verbosity
//	--log_dir                           nl     without effect: the log is written to standard error
//	--log_file                          nl     without effect: the log is written to standard error
//	--log_file_max_size                 nl     without effect: the log is written to standard error
//	--logging-format                    parnl  the FORMAT of the log: text or json
//	--logtostderr                       nl     without effect: the log is written to standard error
//	--mark-attached                     own    mark each VolumeAttachment as attached if the driver does not attach
//	--master                            pr     the ADDRESS of the API server (default: that of --kubeconfig)
//	--max-entries                       a      without effect: a list of volumes has pages only if its answer is too
//	                                           large without them
//	--max-grpc-log-length               a      without effect: the answers of the driver are not logged
//	--metrics-address                   parl   the same as --http-endpoint=HOST:PORT
//	--metrics-path                      parl   must be /metrics: nothing would be at another path
//	--mode                              n      with the MODE kubelet-registration-probe exit with status 0, as
//	                                           node-driver-registrar does
//	--modify-timeout                    r      the TIME that ControllerModifyVolume may take (default: that of --timeout)
//	--node-deployment                   p      must be false: one run serves all nodes: the runs on several nodes would
//	                                           all create the volume of a claim
//	--node-deployment-base-delay        p      without effect: it belongs to --node-deployment
//	--node-deployment-immediate-binding p      without effect: it belongs to --node-deployment
//	--node-deployment-max-delay         p      without effect: it belongs to --node-deployment
//	--node-only                         own    only register the driver and serve its health; use no API server
//	--one_output                        nl     without effect: the log is written to standard error
//	--plugin-registration-path          n      the DIR with the kubelet's sockets for registration
//	--prevent-volume-mode-conversion    p      without effect: a copy always has the volume mode of its source
//	--probe-timeout                     l      the TIME that the call for /healthz may take (default: that of --timeout)
//	--reconcile-sync                    a      the TIME between two lists of the driver's volumes
//	--resize-timeout                    r      the TIME that ControllerExpandVolume may take (default: that of --timeout)
//	--resync                            a      the TIME between two deliveries of all objects (default: never)
//	--resync-period                     r      the same as --resync=TIME
//	--retry-interval-max                par    the longest TIME before a repetition
//	--retry-interval-start              par    the TIME before the first repetition of a failed step, doubled by each
//	                                           failure
//	--skip_headers                      nl     without effect: the lines of the log have no such headers
//	--skip_log_headers                  nl     without effect: the lines of the log have no such headers
//	--snapshot-orphan-sweep-interval    p      without effect: no volume is made from a snapshot, so that snapshots have
//	                                           no finalizers
//	--stderrthreshold                   nl     without effect: the log is written to standard error
//	--strict-topology                   p      pass the topology of the selected node alone to the driver
//	--timeout                           parn   the TIME that a call of the driver may take
//	--unguarded-claims                  own    create volumes without a finalizer on their claims: one call to the API
//	                                           server for a claim instead of three, and a volume can be lost if its claim
//	                                           is deleted meanwhile and this program ends
//	--v                                 parnl  without effect: the log has one verbosity
//	--version                           parn   print the version and exit
//	--vmodule                           parnl  without effect: the log has one verbosity
//	--volume-name-prefix                p      the PREFIX of the names of volumes
//	--volume-name-uuid-length           p      the NUMBER of digits of the claim's UID in the names of volumes (default:
//	                                           all)
//	--worker-threads                    pa     the NUMBER of calls of each companion at the same time
//	--workers                           r      the same as --worker-threads=NUMBER
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
// packages controllers/attachment and csi/sidecar.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
package main
