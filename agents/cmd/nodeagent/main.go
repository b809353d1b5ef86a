package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"k8s.io/apimachinery/pkg/util/validation"
)

func main() { os.Exit(cli.Start(run)) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stdout)
	if err != nil {
		return cli.UsageStatus("nodeagent", err, stderr)
	}
	ctx, out := cli.NewOutput(ctx, stdout)
	defer out.Close()
	err = work(ctx, o, out)
	if failed := out.Err(); failed != nil && !errors.Is(err, failed) {
		err = errors.Join(err, failed)
	}
	return cli.ExitStatus("nodeagent", err, stderr)
}

// options are the program's flags.
type options struct {
	kubeconfig string // empty: the service account of the agent's pod
	node       string
	root       string
	disks      cli.Paths // below which local volumes may be
	hostPaths  cli.Paths // at and below which host paths may be
	register   bool
	csi        bool
	metrics    string // empty: not served
}

func parseOptions(args []string, help io.Writer) (o options, err error) {
	o.node, err = os.Hostname()
	if err != nil {
		return o, err
	}
	set := flag.NewFlagSet("nodeagent", flag.ContinueOnError)
	set.StringVar(&o.kubeconfig, "kubeconfig", "", "the `FILE` with the address of the API server and the credentials (default: the service account of the agent's pod)")
	set.StringVar(&o.node, "node", o.node, "the `NAME` of this node")
	set.StringVar(&o.root, "root", "", "the `DIR` below which the volumes are set up; required")
	set.Var(&o.disks, "disks", "`DIR`s, with commas, below which local volumes may be, and block devices right in them (default: none)")
	set.Var(&o.hostPaths, "host-paths", "`PATH`s, with commas, at or below which host paths may be (default: none)")
	set.BoolVar(&o.register, "register", false, "create the Node object if there is none, report it as Ready, and renew its Lease")
	set.BoolVar(&o.csi, "csi", false, "set up the volumes of CSI drivers, which register in plugins_registry below -root")
	set.StringVar(&o.metrics, "metrics", "", "serve metrics to Prometheus at `HOST:PORT` (default: no)")
	if err := cli.Parse(set, args, help, "nodeagent keeps the volumes of the pods of a node set up."); err != nil {
		return o, err
	}
	if problems := validation.IsDNS1123Subdomain(o.node); len(problems) > 0 {
		return o, fmt.Errorf("-node %q: %s", o.node, problems[0])
	}
	if o.root == "" {
		return o, errors.New("-root: required")
	}
	o.root, err = filepath.Abs(o.root)
	return o, err
}
