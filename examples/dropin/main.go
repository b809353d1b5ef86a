// Dropin is the node side of a driver that was written against k8s.io/mount-utils, and mounts with this library since two
// lines of node.go changed. Its tests still use the FakeMounter. In a mount namespace of its own
//
//	go run ./examples/dropin
//
// prints
//
//	pod-a reads "hello", and may not write: true
//	unstage: the volume is still published: [/tmp/m1/pod-a]
package main

import (
	"errors"
	"fmt"
	"log"
	"os"
	"syscall"

	"github.com/volumekit/volumekit/mount/mounttest"
)

func main() {
	dir, err := mounttest.Sandbox()
	if err == nil {
		err = run(dir)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(dir string) error {
	n := &node{newMounter()}
	disk, staging, pod := dir+"/disk", dir+"/staging", dir+"/pod-a"
	err := errors.Join(os.Mkdir(disk, 0o755), os.WriteFile(disk+"/file", []byte("hello"), 0o600),
		n.stage(disk, staging, "", []string{"noatime"}), n.publish(staging, pod, true))
	if err != nil {
		return err
	}
	text, err := os.ReadFile(pod + "/file")
	fmt.Printf("pod-a reads %q, and may not write: %v\n", text, errors.Is(os.WriteFile(pod+"/file", nil, 0o600), syscall.EROFS))
	fmt.Println("unstage:", n.unstage(staging))
	return errors.Join(err, n.unpublish(pod), n.unstage(staging))
}
