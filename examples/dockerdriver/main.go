// Dockerdriver is a volume driver of Docker for directories of this machine. It runs as root, beside dockerd.
//
//	go run ./examples/dockerdriver -dir /srv/volumes
//	docker volume create -d volumekit -o mode=0750 -o uid=1000 data
//	docker run -v data:/data ...
//	docker run --mount type=volume,volume-driver=volumekit,src=more,dst=/data ...
//
// Each volume is a directory in -dir. If its file system has project quotas, as ext4 and xfs can have, the size of a
// volume is limited to its option size. The option share=DIR shows a directory below -shares.
//
// The exit status is 0 if a signal ended the program, 2 if the command line is wrong, and 1 otherwise.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/docker"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:]))
}

// A program is the parsed command line.
type program struct{ dir, shares, state, socket string }

func run(ctx context.Context, args []string) (status int) {
	var p program
	set := flag.NewFlagSet("dockerdriver", flag.ContinueOnError)
	set.StringVar(&p.dir, "dir", "", "the `DIR` of the volumes; required")
	set.StringVar(&p.shares, "shares", "", "the `DIR` of existing directories for the option share")
	set.StringVar(&p.state, "state", "/var/lib/volumekit-docker", "the `DIR` of the mounts and the records")
	set.StringVar(&p.socket, "socket", docker.SocketDir+"/volumekit.sock", "the `SOCKET` of the driver")
	switch err := set.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case p.dir == "" || set.NArg() > 0:
		fmt.Fprintln(os.Stderr, "dockerdriver: -dir is required, and there are no arguments; see -help")
		return 2
	}
	if err := p.serve(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "dockerdriver:", err)
		return 1
	}
	return 0
}

func (p program) serve(ctx context.Context) error {
	for _, dir := range []string{p.dir, p.state, filepath.Dir(p.socket)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	host, err := volume.NewHost(ctx, p.state)
	if err != nil {
		return err
	}
	mounter := mount.New(mount.Config{})
	defer mounter.Close()
	config := docker.Config{
		Name: "volumekit", Host: host, Mounter: mounter, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	}
	directories := local.Config{Mounter: mounter}
	if p.shares != "" {
		directories.Roots, config.Share = []string{p.shares}, docker.LocalShare
	}
	config.Plugin = local.NewProvisioning(local.ProvisioningConfig{
		Config: directories, Provisioner: "docker", ClaimRoots: []string{p.dir},
	})
	listener, err := docker.Listen(ctx, p.socket)
	if err != nil {
		return err
	}
	return docker.Serve(ctx, listener, config)
}
