package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"path"
	"slices"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/docker"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/api/resource"
)

const programName = "dockervolumes"

func main() { os.Exit(cli.Start(cli.PrintSteps("dockervolumes", run))) }

// run is the program. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "" }) // dockerd splits the args of a plugin at each blank
	o, err := parse(args, stdout)
	if err != nil {
		return cli.UsageStatus(programName, err, stderr)
	}
	mounter := mount.New(mount.Config{})
	defer mounter.Close()
	return cli.ExitStatus(programName, serve(ctx, o, mounter, slog.New(slog.NewTextHandler(stderr, nil))), stderr)
}

type options struct {
	name, state, socket, scope string
	server, path               string // volumes in an export
	size                       size
	dirs, shares               cli.Paths
}

func parse(args []string, help io.Writer) (o options, err error) {
	set := flag.NewFlagSet(programName, flag.ContinueOnError)
	set.StringVar(&o.name, "name", "volumekit", "the `NAME` of the driver")
	set.StringVar(&o.server, "server", "", "create volumes on this NFS `SERVER`")
	set.StringVar(&o.path, "path", "", "create volumes in this `EXPORT` of -server")
	set.Var(&o.dirs, "dir", "create volumes in these `DIR`s of this machine, with commas")
	set.Var(&o.shares, "shares", "with -dir, the `DIR`s, with commas, below which the option share may show directories")
	set.Var(&o.size, "size", "with -server or -dir, the `SIZE` of volumes that are created without one (default: 1Gi)")
	set.StringVar(&o.scope, "scope", string(docker.ScopeLocal), "local or global: the `SCOPE` of the volumes' names")
	set.StringVar(&o.state, "state", "/var/lib/dockervolumes", "the `DIR` of the mounts and the records")
	set.StringVar(&o.socket, "socket", "", "the `SOCKET` of the driver (default: NAME.sock in "+docker.SocketDir+")")
	if err := cli.Parse(set, args, help, programName+" is a volume driver of Docker for NFS, or for directories of this machine."); err != nil {
		return o, err
	}
	if o.socket == "" {
		o.socket = path.Join(docker.SocketDir, o.name+".sock")
	}
	switch {
	case (o.server == "") != (o.path == ""):
		err = errors.New("-server and -path require each other")
	case o.server != "" && len(o.dirs) > 0:
		err = errors.New("volumes are in the export of -server, or in -dir")
	case o.size > 0 && o.server == "" && len(o.dirs) == 0:
		err = errors.New("-size requires -server or -dir")
	case len(o.shares) > 0 && len(o.dirs) == 0:
		err = errors.New("-shares requires -dir")
	case o.scope == string(docker.ScopeGlobal) && len(o.dirs) > 0:
		err = errors.New("-scope global: the directories of -dir are those of one machine")
	}
	return o, err
}

// A size is a flag for a positive number of bytes, as Kubernetes writes it.
type size int64

// String returns the size.
func (s *size) String() string { return resource.NewQuantity(int64(*s), resource.BinarySI).String() }

// Set parses a size.
func (s *size) Set(text string) error {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return err
	}
	bytes, err := quantity.Bytes(&parsed)
	if err == nil && bytes <= 0 {
		err = errors.New("must be positive")
	}
	*s = size(bytes)
	return err
}

// serve serves the driver until ctx ends.
func serve(ctx context.Context, o options, mounter mount.Interface, log *slog.Logger) error {
	for _, dir := range []string{o.state, path.Dir(o.socket)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	host, err := volume.NewHost(ctx, o.state)
	if err != nil {
		return err
	}
	config := docker.Config{Name: o.name, Host: host, Mounter: mounter, Scope: docker.Scope(o.scope), Size: int64(o.size), Logger: log}
	o.addPlugin(&config)
	listener, err := docker.Listen(ctx, o.socket)
	if err != nil {
		return err
	}
	return docker.Serve(ctx, listener, config)
}

// addPlugin adds the plugin of the volumes, and the source of shares.
func (o options) addPlugin(c *docker.Config) {
	provisioner := o.name + ".docker.volumekit.io"
	switch {
	case len(o.dirs) > 0:
		c.Plugin = local.NewProvisioning(local.ProvisioningConfig{
			Config: local.Config{Mounter: c.Mounter, Roots: o.shares}, Provisioner: provisioner, ClaimRoots: o.dirs,
		})
		if len(o.shares) > 0 {
			c.Share = docker.LocalShare
		}
	case o.server != "":
		c.Share, c.Parameters = docker.NFSShare, map[string]string{"onDelete": "delete"}
		if c.Scope == docker.ScopeGlobal { // other machines may use the volume
			c.Parameters["onDelete"] = "retain"
		}
		c.Plugin = nfs.NewProvisioning(nfs.ProvisioningConfig{
			Config: nfs.Config{Mounter: c.Mounter}, Provisioner: provisioner, Server: o.server, Path: o.path,
		})
	default:
		c.Share = docker.NFSShare
		c.Plugin = nfs.New(nfs.Config{Mounter: c.Mounter})
	}
}
