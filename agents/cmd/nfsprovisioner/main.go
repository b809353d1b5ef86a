package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/nfs"
)

func main() { os.Exit(cli.Start(cli.PrintSteps("nfsprovisioner", run))) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, os.Getenv, stdout)
	if err != nil {
		return cli.UsageStatus("nfsprovisioner", err, stderr)
	}
	return cli.ExitStatus("nfsprovisioner", work(ctx, o, stderr), stderr)
}

// options are the program's flags.
type options struct {
	provisioner string
	server      string
	path        string
	aliases     aliases
	mountWith   cli.Options
	dir         string // empty: the program mounts
	root        string
	election    bool
	namespace   string // of the Lease
	kubeconfig  string // empty: the service account of the pod
	listen      string // empty: nothing is served
	timeout     time.Duration
	verbosity   uint
}

// parseOptions returns the flags; the default of a flag is its environment variable.
func parseOptions(args []string, getenv func(string) string, help io.Writer) (o options, err error) {
	o.election, err = parseElection(getenv("ENABLE_LEADER_ELECTION"))
	if err != nil {
		return o, err
	}
	set := flag.NewFlagSet("nfsprovisioner", flag.ContinueOnError)
	set.StringVar(&o.provisioner, "provisioner", getenv("PROVISIONER_NAME"), "the `NAME` of the provisioner in classes ($PROVISIONER_NAME)")
	set.StringVar(&o.server, "server", getenv("NFS_SERVER"), "the NFS server, a name or an `ADDRESS` ($NFS_SERVER)")
	set.StringVar(&o.path, "path", getenv("NFS_PATH"), "the `PATH` of the export ($NFS_PATH)")
	set.Var(&o.aliases, "alias", "another `SERVER:PATH` of the export, such as that of before a move; may be repeated")
	set.Var(&o.mountWith, "mount-options", "`OPTIONS`, with commas, with which the program mounts the export")
	set.StringVar(&o.dir, "dir", "", "the `DIR` at which the export is mounted (default: "+usualDir+" if NFS is mounted there; else the program mounts)")
	set.StringVar(&o.root, "root", "/run/volumekit/nfsprovisioner", "the `DIR` below which the program mounts the export")
	set.BoolVar(&o.election, "leader-election", o.election, "provision only while holding a Lease ($ENABLE_LEADER_ELECTION)")
	set.StringVar(&o.namespace, "namespace", getenv("POD_NAMESPACE"), "the `NAMESPACE` of the Lease ($POD_NAMESPACE; default: that of the service account)")
	set.StringVar(&o.kubeconfig, "kubeconfig", getenv("KUBECONFIG"), "the `FILE` with the address of the API server and the credentials ($KUBECONFIG; default: the service account)")
	set.StringVar(&o.listen, "listen", "", "serve /metrics and /healthz at `HOST:PORT` (default: no)")
	set.UintVar(&o.verbosity, "v", 0, "the verbosity `NUMBER` of the log: from 4 it has the calls of the storage, from 6 the requests to the API server")
	set.Bool("logtostderr", true, "has no effect: the program logs nowhere else")
	set.DurationVar(&o.timeout, "timeout", 2*time.Minute, "the `TIME` that one call of the storage may take")
	if err := cli.Parse(set, args, help, "nfsprovisioner provisions directories of an NFS export."); err != nil {
		return o, err
	}
	for name, value := range map[string]string{"-provisioner": o.provisioner, "-server": o.server, "-path": o.path} {
		if value == "" {
			return o, fmt.Errorf("%s: required", name)
		}
	}
	if o.timeout <= 0 {
		return o, fmt.Errorf("-timeout must be more than 0, got %v", o.timeout)
	}
	if o.namespace == "" && o.election {
		o.namespace, err = service.Namespace(service.NamespaceFile)
	}
	return o, err
}

// aliases are the values of -alias. It implements [flag.Value].
type aliases []nfs.ExportName

func (a *aliases) String() string {
	texts := make([]string, len(*a))
	for i, name := range *a {
		texts[i] = name.Server + ":" + name.Path
	}
	return strings.Join(texts, " ")
}

// Set adds an alias.
func (a *aliases) Set(text string) error {
	at := strings.Index(text, ":/") // an address of IPv6 has colons
	if at <= 0 {
		return errors.New("must be SERVER:PATH")
	}
	*a = append(*a, nfs.ExportName{Server: text[:at], Path: text[at+1:]})
	return nil
}

func parseElection(text string) (bool, error) {
	if text == "" {
		return true, nil
	}
	election, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("ENABLE_LEADER_ELECTION must be true or false, got %q", text)
	}
	return election, nil
}
