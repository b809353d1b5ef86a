// Fetchkube builds kube-apiserver and downloads etcd into the cache if it lacks them:
//
//	fetchkube [-node] [-manager] [-sidecars DIRECTORY] internal/kubeserver/build
//	fetchkube -check
//
// The argument is the directory of the module that requires Kubernetes. With -node it also
// builds the kubelet and downloads a container runtime, with -manager it also builds
// kube-controller-manager, with -sidecars the companions of CSI drivers of the module in
// another directory, internal/kubeserver/buildsidecars. With -check it fetches nothing, and its status is 3 if the
// cache lacks kube-apiserver or etcd. See package kubeserver.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/volumekit/volumekit/internal/kubeserver"
)

func main() {
	check := flag.Bool("check", false, "fetch nothing: status 3 if the cache lacks kube-apiserver or etcd")
	node := flag.Bool("node", false, "also fetch the programs of a node")
	manager := flag.Bool("manager", false, "also build kube-controller-manager")
	sidecars := flag.String("sidecars", "", "also build the companions of CSI drivers of the module in a `DIRECTORY`")
	flag.Parse()
	if *check {
		if _, err := kubeserver.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "fetchkube:", err)
			if errors.Is(err, fs.ErrNotExist) {
				os.Exit(3)
			}
			os.Exit(1)
		}
		return
	}
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: fetchkube [-node] [-manager] [-sidecars DIRECTORY] DIRECTORY")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs, err := kubeserver.Fetch(ctx, flag.Arg(0), os.Stdout)
	if err == nil && *node {
		_, err = kubeserver.FetchNode(ctx, flag.Arg(0), os.Stdout)
	}
	var path string
	if err == nil && *manager {
		path, err = kubeserver.FetchControllerManager(ctx, flag.Arg(0), os.Stdout)
	}
	for _, sidecar := range kubeserver.Sidecars() {
		if err == nil && *sidecars != "" {
			_, err = sidecar.Fetch(ctx, *sidecars, os.Stdout)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fetchkube:", err)
		os.Exit(1)
	}
	fmt.Printf("the cache has %s %s\n", programs.APIServer, kubeserver.Version)
	if *manager {
		fmt.Printf("the manager is %s\n", path)
	}
}
