package docker_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/docker"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// A driver, and the calls of a daemon for a volume.
func ExampleServe() {
	dir, _ := os.MkdirTemp("", "d")
	defer os.RemoveAll(dir)
	dir, _ = filepath.EvalSymlinks(dir)

	ctx, stop := context.WithCancel(context.Background())
	host, _ := volume.NewHost(ctx, dir)
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{})
	listener, _ := docker.Listen(ctx, dir+"/fake.sock")
	served := make(chan error)
	go func() {
		served <- docker.Serve(ctx, listener, docker.Config{Name: "fake", Plugin: plugin, Host: host, Mounter: plugin.Mounter()})
	}()

	daemon := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", dir+"/fake.sock")
	}}}
	call := func(name, body string) {
		resp, err := daemon.Post("http://fake/VolumeDriver."+name, "", strings.NewReader(body))
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		fmt.Printf("%s: %s", name, strings.ReplaceAll(string(answer), dir, ""))
	}
	call("Create", `{"Name": "data", "Opts": {"size": "1Gi"}}`)
	call("Mount", `{"Name": "data", "ID": "a"}`)
	call("Remove", `{"Name": "data"}`)
	call("Unmount", `{"Name": "data", "ID": "a"}`)
	call("Remove", `{"Name": "data"}`)

	daemon.CloseIdleConnections()
	stop()
	fmt.Println("served:", <-served)
	// Output:
	// Create: {"Err":""}
	// Mount: {"Mountpoint":"/plugins/volumekit.io/docker/fake/mounts/data","Err":""}
	// Remove: {"Err":"volume data: the volume is in use: by 1 users, one for 0s"}
	// Unmount: {"Err":""}
	// Remove: {"Err":""}
	// served: <nil>
}
