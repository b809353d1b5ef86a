package registration_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"

	"github.com/volumekit/volumekit/csi/registration"
)

// An exampleDriver is a driver that knows its node.
type exampleDriver struct{ csipb.UnimplementedNodeServer }

func (exampleDriver) NodeGetInfo(context.Context, *csipb.NodeGetInfoRequest) (*csipb.NodeGetInfoResponse, error) {
	return &csipb.NodeGetInfoResponse{NodeId: "node-1"}, nil
}

// A driver registers itself, and the agent of the node finds it by its name.
func Example() {
	dir, err := os.MkdirTemp("", "csi")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	registry := filepath.Join(dir, "plugins_registry")
	if err := os.Mkdir(registry, 0o755); err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	// The driver.
	endpoint := filepath.Join(dir, "csi.sock")
	listener, err := net.Listen("unix", endpoint)
	if err != nil {
		fmt.Println(err)
		return
	}
	server := grpc.NewServer()
	csipb.RegisterNodeServer(server, exampleDriver{})
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	served := make(chan error, 1)
	go func() {
		served <- registration.Serve(ctx, registration.ServerConfig{Dir: registry, Endpoint: endpoint, Driver: "nfs.example.com"})
	}()

	// The agent.
	changed := make(chan string, 1)
	watcher, err := registration.New(registration.Config{Dir: registry, Changed: func(driver string) { changed <- driver }})
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error, 1)
	go func() { ended <- watcher.Run(ctx) }()
	driver, ok := watcher.Driver(<-changed)
	fmt.Println(driver.Name, driver.NodeID, ok)
	cancel()
	fmt.Println(<-served, <-ended)
	// Output:
	// nfs.example.com node-1 true
	// <nil> <nil>
}
