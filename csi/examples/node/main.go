package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/demonstration"
)

const (
	nodeName   = "node-1"
	driverName = "local.csi.example.com"
)

var program = demonstration.Program{
	Name: "node", Help: "node mounts the volume of a CSI driver for a pod, and removes it.", Show: show,
}

func main() { os.Exit(cli.Start(program.Run)) }

// show runs a driver and a node in a directory, and takes the steps of the user.
func show(ctx context.Context, out io.Writer, k demonstration.Kernel, dir string) error {
	at := func(name string) string { return filepath.Join(dir, name) }
	// The path of a socket has at most 107 bytes, so that of their directory is short.
	d := localDriver{root: at("driver"), claims: at("claims"), node: at("node"), sockets: at("reg"), mounter: k}
	if err := errors.Join(os.Mkdir(d.root, 0o755), os.Mkdir(d.claims, 0o755), os.Mkdir(d.node, 0o755), os.Mkdir(d.sockets, 0o755)); err != nil {
		return err
	}
	n, err := newNode(ctx, k, d.node, d.sockets)
	if err != nil {
		return err
	}
	listener, err := d.listen(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	working, stop := context.WithCancel(context.WithoutCancel(ctx)) // driver and node outlive ctx, to clean up
	ended := make(chan error, 1)
	go func() {
		serve := func(ctx context.Context) error { return d.serve(ctx, listener) }
		ended <- cli.RunAll(working, serve, d.register, n.run)
		cancel()
	}()
	u := &user{node: n, driver: d, kernel: k, dir: dir, out: out}
	err = errors.Join(u.run(ctx), u.cleanUp(working))
	stop()
	return errors.Join(<-ended, err)
}
