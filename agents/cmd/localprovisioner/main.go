package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/service"
	"k8s.io/apimachinery/pkg/util/validation"
)

func main() { os.Exit(cli.Start(cli.PrintSteps("localprovisioner", run))) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	if err != nil {
		return cli.UsageStatus("localprovisioner", err, stderr)
	}
	return cli.ExitStatus("localprovisioner", work(ctx, o, stderr), stderr)
}

// options are the program's flags.
type options struct {
	kubeconfig string // empty: the service account of the pod
	name       string
	node       string
	root       string
	claims     cli.Paths
	former     cli.Paths
	goneNodes  bool
	namespace  string // of the Lease
	listen     string // empty: nothing is served
}

func parseOptions(args []string, help io.Writer) (o options, err error) {
	if o.node = os.Getenv("NODE_NAME"); o.node == "" {
		if o.node, err = os.Hostname(); err != nil {
			return o, err
		}
	}
	set := flag.NewFlagSet("localprovisioner", flag.ContinueOnError)
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "the `FILE` with the address of the API server and the credentials (default: the service account of the pod)")
	set.StringVar(&o.name, "name", "volumekit.io/local", "the `NAME` of the provisioner in storage classes")
	set.StringVar(&o.node, "node", o.node, "the `NAME` of this node, or the variable NODE_NAME")
	set.StringVar(&o.root, "root", "/var/lib/kubelet", "the kubelet's `DIR`")
	set.Var(&o.claims, "claims", "`DIR`s, with commas, for the directories of the claims; required")
	set.Var(&o.former, "former-claims", "`DIR`s, with commas, that were in -claims: their directories are deleted, and none is created")
	set.BoolVar(&o.goneNodes, "gone-nodes", false, "work for the nodes that do not exist any more, once in the cluster, instead of for this node")
	set.StringVar(&o.namespace, "namespace", os.Getenv("POD_NAMESPACE"), "the `NAMESPACE` of the Lease of -gone-nodes ($POD_NAMESPACE; default: that of the service account)")
	set.StringVar(&o.listen, "listen", "", "serve metrics and health at `HOST:PORT` (default: no)")
	if err := cli.Parse(set, args, help, "localprovisioner provisions directories of a node for claims."); err != nil {
		return o, err
	}
	if problems := validation.IsDNS1123Subdomain(o.node); len(problems) > 0 && !o.goneNodes {
		return o, fmt.Errorf("-node %q: %s", o.node, problems[0])
	}
	if problems := validation.IsQualifiedName(o.name); len(problems) > 0 {
		return o, fmt.Errorf("-name %q: %s", o.name, problems[0])
	}
	switch {
	case o.goneNodes && len(o.claims)+len(o.former) > 0:
		return o, errors.New("-claims and -former-claims have no meaning with -gone-nodes")
	case !o.goneNodes && len(o.claims) == 0:
		return o, errors.New("-claims: required")
	case o.goneNodes && o.namespace == "":
		o.namespace, err = service.Namespace(service.NamespaceFile)
	}
	return o, err
}
