package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/csi/sidecar"
)

// options are the program's flags.
type options struct {
	address    string
	kubeconfig string // empty: the service account of the pod
	master     string // the address of the API server; empty: that of kubeconfig
	nodeOnly   bool
	logFormat  string
	mode       string // of node-driver-registrar
	version    bool   // print it, and end
	warnings   []warning

	listen         string // empty: nothing is served
	metricsAddress string // another name of listen
	healthPort     int    // likewise, if more than 0

	election    bool
	namespace   string // of the Lease
	leaseLabels labels
	periods     service.Periods

	timeout, resync time.Duration
	// Of single calls; 0: timeout.
	resizeTimeout, modifyTimeout, probeTimeout time.Duration
	listEvery                                  time.Duration
	firstBackoff, mostPause                    time.Duration
	workers                                    int
	provision                                  sidecar.ProvisionConfig
	uuidLength                                 int
	immediateTopology                          bool
	markAttached                               bool
	extraModify                                bool
	gates                                      featureGates

	registrationPath, registrationDir string

	capacity   bool
	objects    sidecar.CapacityConfig
	ownerLevel int
	pod        podName
}

// A podName is the pod of this process.
type podName struct{ namespace, name string }

// parseOptions returns the flags of a command line. The error is flag.ErrHelp if the program has nothing to do.
func parseOptions(args []string, getenv func(string) string, help io.Writer) (o options, err error) {
	set := o.newFlagSet()
	o.pod = podName{getenv("NAMESPACE"), getenv("POD_NAME")}
	if err := cli.Parse(set, args, help, "sidecar runs the companions of a CSI driver."); err != nil {
		return o, err
	}
	switch {
	case o.version:
		return o, printVersion(help)
	case o.mode == probeMode:
		return o, flag.ErrHelp
	}
	o.warnings = warningsOf(set)
	return o, o.complete()
}

// newFlagSet returns all flags of the program, which set the fields.
func (o *options) newFlagSet() *flag.FlagSet {
	set := flag.NewFlagSet("sidecar", flag.ContinueOnError)
	set.StringVar(&o.address, "csi-address", "/run/csi/socket", "the `SOCKET` of the driver")
	set.BoolVar(&o.nodeOnly, "node-only", false, "only register the driver and serve its health; use no API server")
	set.StringVar(&o.logFormat, "logging-format", "text", "the `FORMAT` of the log: text or json")
	set.BoolVar(&o.version, "version", false, "print the version and exit")
	set.StringVar(&o.mode, "mode", "registration", "with the `MODE` "+probeMode+" exit with status 0, as node-driver-registrar does")
	set.Var(&o.gates, "feature-gates", "`LIST` of NAME=BOOL: Topology can be switched off")
	o.addClusterFlags(set)
	o.addEndpointFlags(set)
	o.addCallFlags(set)
	o.addProvisionFlags(set)
	o.addCapacityFlags(set)
	set.BoolVar(&o.extraModify, "extra-modify-metadata", false, "pass the names of claim and volume to the driver with the parameters of a volume attributes class")
	set.BoolVar(&o.markAttached, "mark-attached", false, "mark each VolumeAttachment as attached if the driver does not attach")
	set.StringVar(&o.registrationPath, "kubelet-registration-path", "", "register the driver with the kubelet, which sees the socket at this `PATH`")
	set.StringVar(&o.registrationDir, "plugin-registration-path", "/registration", "the `DIR` with the kubelet's sockets for registration")
	addOtherFlags(set)
	return set
}

// probeMode is the mode in which node-driver-registrar, in earlier versions, was the probe of its container.
const probeMode = "kubelet-registration-probe"

// printVersion prints the version, and returns flag.ErrHelp.
func printVersion(to io.Writer) error {
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		version = build.Main.Version
	}
	if _, err := fmt.Fprintln(to, "sidecar", version); err != nil {
		return fmt.Errorf("standard output: %w", err)
	}
	return flag.ErrHelp
}

func (o *options) addClusterFlags(set *flag.FlagSet) {
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "the `FILE` with the address of the API server and the credentials (default: the service account)")
	set.StringVar(&o.master, "master", "", "the `ADDRESS` of the API server (default: that of --kubeconfig)")
	set.BoolVar(&o.election, "leader-election", false, "work only while holding a Lease")
	set.StringVar(&o.namespace, "leader-election-namespace", "", "the `NAMESPACE` of the Lease (default: that of the service account)")
	set.Var(&o.leaseLabels, "leader-election-labels", "the labels of the Lease, a `LIST` of KEY:VALUE")
	set.DurationVar(&o.periods.LeaseDuration, "leader-election-lease-duration", 15*time.Second, "the `TIME` after the last renewal of the Lease before another process acquires it")
	set.DurationVar(&o.periods.RenewDeadline, "leader-election-renew-deadline", 10*time.Second, "the `TIME` for which the holder tries to renew the Lease")
	set.DurationVar(&o.periods.RetryPeriod, "leader-election-retry-period", 2*time.Second, "the `TIME` between two attempts to acquire or renew the Lease")
}

func (o *options) addEndpointFlags(set *flag.FlagSet) {
	set.StringVar(&o.listen, "http-endpoint", "", "serve /metrics, /healthz and /healthz/leader-election at `HOST:PORT` (default: no)")
	set.StringVar(&o.metricsAddress, "metrics-address", "", "the same as --http-endpoint=`HOST:PORT`")
	set.IntVar(&o.healthPort, "health-port", 0, "the same as --http-endpoint=:`PORT`, if it is more than 0")
	set.DurationVar(&o.probeTimeout, "probe-timeout", 0, "the `TIME` that the call for /healthz may take (default: that of --timeout)")
}

func (o *options) addCallFlags(set *flag.FlagSet) {
	set.DurationVar(&o.timeout, "timeout", 15*time.Second, "the `TIME` that a call of the driver may take")
	set.DurationVar(&o.resizeTimeout, "resize-timeout", 0, "the `TIME` that ControllerExpandVolume may take (default: that of --timeout)")
	set.DurationVar(&o.modifyTimeout, "modify-timeout", 0, "the `TIME` that ControllerModifyVolume may take (default: that of --timeout)")
	set.DurationVar(&o.resync, "resync", 0, "the `TIME` between two deliveries of all objects (default: never)")
	set.DurationVar(&o.resync, "resync-period", 0, "the same as --resync=`TIME`")
	set.DurationVar(&o.listEvery, "reconcile-sync", time.Minute, "the `TIME` between two lists of the driver's volumes")
	set.DurationVar(&o.firstBackoff, "retry-interval-start", time.Second, "the `TIME` before the first repetition of a failed step, doubled by each failure")
	set.DurationVar(&o.mostPause, "retry-interval-max", 5*time.Minute, "the longest `TIME` before a repetition")
	set.IntVar(&o.workers, "worker-threads", 100, "the `NUMBER` of calls of each companion at the same time")
	set.IntVar(&o.workers, "workers", 100, "the same as --worker-threads=`NUMBER`")
}

func (o *options) addCapacityFlags(set *flag.FlagSet) {
	set.BoolVar(&o.capacity, "enable-capacity", false, "publish the storage capacity of the driver")
	set.DurationVar(&o.objects.PollInterval, "capacity-poll-interval", time.Minute, "the `TIME` between two queries of the capacity")
	set.BoolVar(&o.objects.ForImmediateBinding, "capacity-for-immediate-binding", false, "also for classes that do not wait for the first consumer")
	set.IntVar(&o.ownerLevel, "capacity-ownerref-level", 1, "the owner of the objects: `NUMBER` 0 for the pod, 1 for its controller, 2 for that of its ReplicaSet, -1 for none")
}

func (o *options) addProvisionFlags(set *flag.FlagSet) {
	set.StringVar(&o.provision.VolumeNamePrefix, "volume-name-prefix", "pvc", "the `PREFIX` of the names of volumes")
	set.IntVar(&o.uuidLength, "volume-name-uuid-length", -1, "the `NUMBER` of digits of the claim's UID in the names of volumes (default: all)")
	set.StringVar(&o.provision.DefaultFSType, "default-fstype", "", "the `TYPE` of the file system of volumes whose class has none")
	set.BoolVar(&o.provision.ExtraCreateMetadata, "extra-create-metadata", false, "pass the names of claim and volume to the driver")
	set.BoolVar(&o.provision.StrictTopology, "strict-topology", false, "pass the topology of the selected node alone to the driver")
	set.BoolVar(&o.provision.UnguardedClaims, "unguarded-claims", false, "create volumes without a finalizer on their claims: one call to the API server for a claim instead of three, and a volume can be lost if its claim is deleted meanwhile and this program ends")
	set.BoolVar(&o.provision.ReadOnlyVolumes, "controller-publish-readonly", false, "create read-only volumes for claims whose only access mode is ReadOnlyMany")
	set.BoolVar(&o.immediateTopology, "immediate-topology", true, "pass the topologies of all nodes to the driver if no node is selected")
}

// complete checks the flags, and derives the fields that depend on several of them.
func (o *options) complete() (err error) {
	switch {
	case o.address == "":
		return errors.New("--csi-address: required")
	case o.timeout <= 0:
		return fmt.Errorf("--timeout must be more than 0, got %v", o.timeout)
	case min(o.resizeTimeout, o.modifyTimeout, o.probeTimeout, o.listEvery) < 0:
		return errors.New("--resize-timeout, --modify-timeout, --probe-timeout and --reconcile-sync must be at least 0")
	case o.logFormat != "text" && o.logFormat != "json":
		return fmt.Errorf("--logging-format must be text or json, got %q", o.logFormat)
	case o.workers <= 0:
		return fmt.Errorf("--worker-threads must be more than 0, got %d", o.workers)
	case o.nodeOnly && (o.capacity || o.election):
		return errors.New("--node-only excludes --enable-capacity and --leader-election")
	case o.ownerLevel < noOwner || o.ownerLevel > deploymentOwner:
		return fmt.Errorf("--capacity-ownerref-level must be -1, 0, 1 or 2, got %d", o.ownerLevel)
	case o.capacity && o.pod.namespace == "":
		return errors.New("--enable-capacity requires the variable NAMESPACE")
	case o.capacity && o.ownerLevel >= 0 && o.pod.name == "":
		return errors.New("--capacity-ownerref-level requires the variable POD_NAME")
	case o.uuidLength == 0 || o.uuidLength < -1:
		return fmt.Errorf("--volume-name-uuid-length must be -1 or more than 0, got %d", o.uuidLength)
	}
	if err := o.periods.Check(); err != nil {
		return fmt.Errorf("--leader-election-lease-duration, -renew-deadline, -retry-period: %w", err)
	}
	if err := o.completeEndpoint(); err != nil {
		return err
	}
	o.provision.VolumeNameUUIDLength = max(o.uuidLength, 0)
	o.provision.WithoutImmediateTopology = !o.immediateTopology
	o.provision.WithoutTopology = o.gates.withoutTopology
	o.objects.Namespace = o.pod.namespace
	if o.namespace == "" && o.election {
		o.namespace, err = service.Namespace(service.NamespaceFile)
	}
	return err
}

// completeEndpoint sets the address to listen at, which has three names.
func (o *options) completeEndpoint() error {
	addresses := []string{o.listen, o.metricsAddress}
	if o.healthPort > 0 {
		addresses = append(addresses, fmt.Sprintf(":%d", o.healthPort))
	}
	addresses = slices.DeleteFunc(addresses, func(address string) bool { return address == "" })
	if len(addresses) > 1 {
		return errors.New("--http-endpoint, --metrics-address and --health-port exclude each other: one address has all paths")
	}
	o.listen = strings.Join(addresses, "")
	return nil
}
