package main

import (
	"context"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/bench/internal/subject"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
)

// The names of the subjects.
const (
	nameFloor   = "floor"
	nameDurable = "floor, durable"
	nameOurs    = "ours"
	namePeer    = "kubelet"
)

// isSubject carries the orders out if this process is one of a subject, and reports whether it is one.
func isSubject() bool {
	c, ok, err := subject.Read()
	if !ok {
		return false
	}
	if err == nil {
		err = runSubject(c)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	return true
}

func runSubject(c subject.Config) error {
	start, ok := map[string]func(subject.Config) (subject.Client, error){
		nameFloor: newFloor, nameDurable: newFloor, nameOurs: newOurs,
	}[c.Subject]
	if !ok {
		return fmt.Errorf("subject %q is not known", c.Subject)
	}
	client, err := start(c)
	if err != nil {
		return err
	}
	return subject.Main(client)
}

// ours is the plugin of package csi.
type ours struct {
	plugin  *csi.Plugin
	devices volume.DeviceMounter
	remover volume.DeviceUnmounter
}

func newOurs(c subject.Config) (subject.Client, error) {
	host, err := volume.NewHost(context.Background(), c.Root, volume.WithNodeName(subject.Node))
	if err != nil {
		return subject.Client{}, err
	}
	o := ours{plugin: csi.New(csi.Config{Mounter: mount.New(mount.Config{}), Drivers: registered(c.Socket), Objects: object{}})}
	if err := o.plugin.Init(context.Background(), host); err != nil {
		return subject.Client{}, err
	}
	if o.devices, err = o.plugin.NewDeviceMounter(); err != nil {
		return subject.Client{}, err
	}
	o.remover, err = o.plugin.NewDeviceUnmounter()
	return subject.Client{Up: o.up, Down: o.down}, err
}

func (o ours) up(number int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	spec := volume.NewSpecFromPersistentVolume(subject.Volume(number), false)
	at, err := o.devices.GetDeviceMountPath(spec)
	if err != nil {
		return err
	}
	if err := o.devices.MountDevice(ctx, spec, at, volume.DeviceMounterArgs{}); err != nil {
		return err
	}
	m, err := o.plugin.NewMounter(spec, subject.Pod())
	if err != nil {
		return err
	}
	return m.SetUp(ctx, volume.MounterArgs{})
}

func (o ours) down(number int) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	spec := volume.NewSpecFromPersistentVolume(subject.Volume(number), false)
	u, err := o.plugin.NewUnmounter(spec.Name(), subject.Pod().UID)
	if err != nil {
		return err
	}
	if err := u.TearDown(ctx); err != nil {
		return err
	}
	at, err := o.devices.GetDeviceMountPath(spec)
	if err != nil {
		return err
	}
	return o.remover.UnmountDevice(ctx, at)
}

// registered is the socket of the driver.
type registered string

func (r registered) Driver(name string) (csi.Driver, bool) {
	return csi.Driver{Name: subject.Driver, Endpoint: string(r), Registration: 1}, name == subject.Driver
}

type object struct{}

var benchObject = subject.Object()

func (object) GetCSIDriver(context.Context, string) (*storagev1.CSIDriver, error) {
	return benchObject, nil
}
