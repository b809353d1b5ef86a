package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"strings"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/service"
)

func main() { os.Exit(cli.Start(cli.PrintSteps("controlplane", run))) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, os.Getenv, stdout)
	if err != nil {
		return cli.UsageStatus("controlplane", err, stderr)
	}
	if o.memory {
		ctx, out := cli.NewOutput(ctx, stdout)
		defer out.Close()
		return cli.ExitStatus("controlplane", demonstrate(ctx, o, out, stderr), stderr)
	}
	return cli.ExitStatus("controlplane", work(ctx, o, stderr), stderr)
}

// options are the program's flags.
type options struct {
	controllers  selection
	reportUnused bool
	memory       bool
	election     bool
	lease        string
	namespace    string // of the Lease
	kubeconfig   string // empty: the service account of the pod
	listen       string // empty: nothing is served
	// nfs and hostPath configure the pods that recycle volumes.
	nfs, hostPath recycling
	hostPathRoots []string // the directories whose entries are recycled
}

// parseOptions returns the flags.
func parseOptions(args []string, getenv func(string) string, help io.Writer) (o options, err error) {
	var controllers, roots string
	set := flag.NewFlagSet("controlplane", flag.ContinueOnError)
	set.StringVar(&controllers, "controllers", every, "the `NAMES` of the controllers to run, with commas: * for all, -NAME for all but one (all: "+strings.Join(allNames(), ", ")+")")
	set.BoolVar(&o.reportUnused, "report-unused", false, "set the condition Unused of bound claims")
	set.BoolVar(&o.memory, "memory", false, "show the controllers on an API server in memory, and end")
	set.BoolVar(&o.election, "leader-election", true, "work only while holding a Lease")
	set.StringVar(&o.lease, "lease", "volumekit-controlplane", "the `NAME` of the Lease")
	set.StringVar(&o.namespace, "namespace", getenv("POD_NAMESPACE"), "the `NAMESPACE` of the Lease ($POD_NAMESPACE; default: that of the service account)")
	set.StringVar(&o.kubeconfig, "kubeconfig", getenv("KUBECONFIG"), "the `FILE` with the address of the API server and the credentials ($KUBECONFIG; default: the service account)")
	set.StringVar(&o.listen, "listen", "", "serve /metrics and /healthz at `HOST:PORT` (default: no)")
	o.addRecyclingFlags(set, &roots)
	if err := cli.Parse(set, args, help, "controlplane runs the controllers of volumes for a cluster."); err != nil {
		return o, err
	}
	if o.controllers, err = parseSelection(controllers); err != nil {
		return o, err
	}
	if err = errors.Join(
		o.nfs.check("pv-recycler-minimum-timeout-nfs", "pv-recycler-increment-timeout-nfs"),
		o.hostPath.check("pv-recycler-minimum-timeout-hostpath", "pv-recycler-timeout-increment-hostpath"),
	); err != nil {
		return o, err
	}
	if o.hostPathRoots, err = parseRoots(roots); err != nil {
		return o, err
	}
	switch {
	case o.lease == "" && o.election:
		return o, errors.New("-lease: required")
	case o.reportUnused && !o.controllers.has(claimProtection):
		return o, errors.New("-report-unused: requires the controller " + claimProtection)
	case o.namespace == "" && o.election:
		o.namespace, err = service.Namespace(service.NamespaceFile)
	}
	return o, err
}

// addRecyclingFlags adds the flags of the recyclers, with the names of kube-controller-manager.
func (o *options) addRecyclingFlags(set *flag.FlagSet, roots *string) {
	set.StringVar(&o.nfs.template, "pv-recycler-pod-template-filepath-nfs", "", "the `FILE` with the pod that recycles NFS volumes (default: that of package recycler)")
	set.IntVar(&o.nfs.minimum, "pv-recycler-minimum-timeout-nfs", 300, "the least `SECONDS` for a pod that recycles an NFS volume")
	set.IntVar(&o.nfs.increment, "pv-recycler-increment-timeout-nfs", 30, "the `SECONDS` for each GiB of an NFS volume that a pod recycles")
	set.StringVar(roots, "pv-recycler-roots-hostpath", "", "the `DIRECTORIES`, with commas, whose entries are recycled as host paths, in a cluster of one node (default: none)")
	set.StringVar(&o.hostPath.template, "pv-recycler-pod-template-filepath-hostpath", "", "the `FILE` with the pod that recycles host paths (default: that of package recycler)")
	set.IntVar(&o.hostPath.minimum, "pv-recycler-minimum-timeout-hostpath", 60, "the least `SECONDS` for a pod that recycles a host path")
	set.IntVar(&o.hostPath.increment, "pv-recycler-timeout-increment-hostpath", 30, "the `SECONDS` for each GiB of a host path that a pod recycles")
}
