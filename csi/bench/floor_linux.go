package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi/bench/internal/subject"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// A floor makes the calls alone, or with durable files.
type floor struct {
	node    csipb.NodeClient
	staging string // directory of all staged volumes
	volumes string // directory of the pod's volumes
	durable bool
}

func newFloor(c subject.Config) (subject.Client, error) {
	conn, err := grpc.NewClient("unix:"+c.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return subject.Client{}, err
	}
	f := &floor{
		node: csipb.NewNodeClient(conn), durable: c.Subject == nameDurable,
		staging: path.Join(c.Root, "plugins/kubernetes.io/csi", subject.Driver),
		volumes: path.Join(c.Root, "pods", string(subject.Pod().UID), "volumes/kubernetes.io~csi"),
	}
	return subject.Client{Up: f.up, Down: f.down}, errors.Join(os.MkdirAll(f.staging, 0o750), os.MkdirAll(f.volumes, 0o750))
}

// A floorVolume is a volume with its paths.
type floorVolume struct {
	handle       string
	attributes   map[string]string
	staged, dir  string // directories of the files
	global, path string
}

func (f *floor) volume(number int) floorVolume {
	pv := subject.Volume(number)
	source := pv.Spec.CSI
	v := floorVolume{
		handle: source.VolumeHandle, attributes: source.VolumeAttributes,
		// A hash is as long.
		staged: path.Join(f.staging, fmt.Sprintf("%064d", number)), dir: path.Join(f.volumes, pv.Name),
	}
	v.global, v.path = path.Join(v.staged, "globalmount"), path.Join(v.dir, "mount")
	return v
}

var floorCapability = &csipb.VolumeCapability{
	AccessMode: &csipb.VolumeCapability_AccessMode{Mode: csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
	AccessType: &csipb.VolumeCapability_Mount{Mount: &csipb.VolumeCapability_MountVolume{FsType: "ext4"}},
}

// within makes a call with the deadline of a node's calls.
func within(call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	return call(ctx)
}

func (f *floor) up(number int) error {
	v := f.volume(number)
	if err := errors.Join(os.Mkdir(v.staged, 0o750), os.Mkdir(v.global, 0o750), f.write(v.staged)); err != nil {
		return err
	}
	err := within(func(ctx context.Context) error {
		_, err := f.node.NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{
			VolumeId: v.handle, StagingTargetPath: v.global, VolumeCapability: floorCapability, VolumeContext: v.attributes,
		})
		return err
	})
	if err == nil {
		err = errors.Join(os.Mkdir(v.dir, 0o750), f.write(v.dir))
	}
	if err != nil {
		return err
	}
	return within(func(ctx context.Context) error {
		_, err := f.node.NodePublishVolume(ctx, &csipb.NodePublishVolumeRequest{
			VolumeId: v.handle, StagingTargetPath: v.global, TargetPath: v.path, VolumeCapability: floorCapability, VolumeContext: v.attributes,
		})
		return err
	})
}

func (f *floor) down(number int) error {
	v := f.volume(number)
	err := within(func(ctx context.Context) error {
		_, err := f.node.NodeUnpublishVolume(ctx, &csipb.NodeUnpublishVolumeRequest{VolumeId: v.handle, TargetPath: v.path})
		return err
	})
	if err == nil {
		err = errors.Join(f.remove(v.dir), os.Remove(v.dir))
	}
	if err != nil {
		return err
	}
	err = within(func(ctx context.Context) error {
		_, err := f.node.NodeUnstageVolume(ctx, &csipb.NodeUnstageVolumeRequest{VolumeId: v.handle, StagingTargetPath: v.global})
		return err
	})
	if err != nil {
		return err
	}
	return errors.Join(os.Remove(v.global), f.remove(v.staged), os.Remove(v.staged))
}

// floorFile is as long as the file of a volume.
var floorFile = bytes.Repeat([]byte("x"), 600)

const floorFileName = "vol_data.json"

// write writes the file of a volume, durably, in a new directory.
func (f *floor) write(dir string) error {
	if !f.durable {
		return nil
	}
	name := path.Join(dir, floorFileName)
	file, err := os.Create(name + ".tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(floorFile)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(name+".tmp", name)
	}
	if err != nil {
		return err
	}
	directory, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}

func (f *floor) remove(dir string) error {
	if !f.durable {
		return nil
	}
	return os.Remove(path.Join(dir, floorFileName))
}
