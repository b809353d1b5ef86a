package node_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Drivers. Volumes of simPlain are mounted in each pod alone. A controller attaches those of the
// others: simAttached reads the device path of node.status.volumesAttached and mounts in each pod;
// simShared waits for a VolumeAttachment, as a CSI plugin does, and mounts once for all pods.
const (
	simPlain, simAttached, simShared = "plain.sim.io", "attached.sim.io", "shared.sim.io"
)

var simDrivers = []string{simPlain, simAttached, simShared}

// A simDisk is the storage of a volume. simNode.storage guards it. Sizes are in GiB.
type simDisk struct {
	volume     string
	driver     string
	source     string        // the directory with its files
	device     string        // the path of its device on the node; "": not attached
	size       int64         // of the storage
	fileSystem int64         // of the file system, which NodeExpand grows
	refusal    error         // of NodeExpand; nil: none
	delay      time.Duration // of NodeExpand
	refused    int64         // the largest size that NodeExpand has refused, for good or in this state
}

func (d *simDisk) isAttachable() bool { return d.driver != simPlain }

func (d *simDisk) uniqueName() v1.UniqueVolumeName {
	return v1.UniqueVolumeName(simPluginName(d.driver) + "/" + d.source)
}

func simPluginName(driver string) string { return "sim.io/" + driver }

// inGibibytes returns a size, rounded up.
func inGibibytes(q resource.Quantity) int64 {
	bytes, err := quantity.Bytes(&q)
	if err != nil {
		return 0
	}
	return (bytes + 1<<30 - 1) >> 30
}

// diskOf returns the disk of a volume, or nil. The caller holds storage.
func (n *simNode) diskOf(volume string) *simDisk { return n.volumes[volume] }

// attachable returns the disk of an attachable volume that is, or will be, mounted at a path; nil:
// another mount.
func (n *simNode) attachable(target string) *simDisk {
	n.storage.Lock()
	defer n.storage.Unlock()
	if disk := n.diskOf(filepath.Base(target)); disk != nil && disk.isAttachable() {
		return disk
	}
	return nil
}

// attach makes the device of a volume appear.
func (n *simNode) attach(volume, device string) {
	n.storage.Lock()
	defer n.storage.Unlock()
	n.diskOf(volume).device = device
	n.sim.log("  %s is attached as %s", volume, device)
}

// detach makes the device of a volume disappear, and fails if it is mounted.
func (n *simNode) detach(volume string) {
	n.storage.Lock()
	defer n.storage.Unlock()
	for _, target := range n.sim.mountPoints() {
		if filepath.Base(target) == volume {
			n.sim.fail("%s is detached while it is mounted at %s", volume, target)
		}
	}
	n.diskOf(volume).device = ""
	n.sim.log("  %s is detached", volume)
}

// checkInUse fails unless the API server has the volume of a disk in volumesInUse.
func (n *simNode) checkInUse(disk *simDisk, what string) {
	stored, err := n.sim.cluster.Nodes().Get(n.sim.ctx, simNodeName, metav1.GetOptions{})
	if err != nil {
		return // a real API server that is down
	}
	if !slices.Contains(stored.Status.VolumesInUse, disk.uniqueName()) {
		n.sim.fail("%s %s, which volumesInUse lacks", disk.volume, what)
	}
}

// checkDevice fails unless a volume is attached, and has the device if one is given. The caller holds
// storage.
func (n *simNode) checkDevice(disk *simDisk, device, what string) {
	if disk.device == "" || device != "" && device != disk.device {
		n.sim.fail("%s %s at device %q, and has device %q", disk.volume, what, device, disk.device)
	}
}

// checkMounts checks that each mounted volume of a controller is attached, and in use by the status of
// the node. The program is idle.
func (s *simulation) checkMounts(mounts []string) {
	for _, target := range mounts {
		if disk := s.node.attachable(target); disk != nil {
			s.node.checkInUse(disk, "is mounted at "+target)
			s.node.storage.Lock()
			s.node.checkDevice(disk, "", "is mounted")
			s.node.storage.Unlock()
		}
	}
}

// A simPlugin is the plugin of a driver in one run of the program.
type simPlugin struct {
	*volumetest.FakePlugin
	program *simProgram
	driver  string
}

// NodeExpand grows the file system of a volume.
func (p simPlugin) NodeExpand(ctx context.Context, options volume.NodeResizeOptions) (bool, error) {
	n := p.program.node
	n.storage.Lock()
	defer n.storage.Unlock()
	disk := n.diskOf(options.Spec.Name())
	if delay := disk.delay; delay > 0 {
		n.storage.Unlock()
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
		n.storage.Lock()
	}
	size := inGibibytes(options.NewSize)
	switch {
	case ctx.Err() != nil:
		return false, volume.AsTransient(context.Cause(ctx))
	case n.hasCrashed():
		return false, errSimDown
	case disk.isAttachable() && disk.device == "":
		n.sim.fail("%s is grown without a device", disk.volume)
	case size > disk.size:
		n.sim.fail("%s has %d GiB and is grown to %d GiB", disk.volume, disk.size, size)
	}
	kind := volume.KindOf(disk.refusal)
	if disk.refusal == nil || kind == volume.Uncertain {
		disk.fileSystem = max(disk.fileSystem, size)
	} else if kind == volume.Final || errors.Is(disk.refusal, volume.ErrFailedPrecondition) {
		disk.refused = max(disk.refused, size)
	}
	return disk.refusal == nil, disk.refusal
}

// ReleaseAttached ends the watch of the VolumeAttachment of a volume that the manager has given up.
func (p simPlugin) ReleaseAttached(name string) {
	if p.driver == simShared {
		p.program.attachments.ReleaseAttachment(simShared, name)
	}
}

func (p simPlugin) NewAttacher() (volume.Attacher, error) {
	attacher, err := p.FakePlugin.NewAttacher()
	return simAttacher{attacher, p}, err
}

// A simAttacher is the attacher of a plugin. Only WaitForAttach is called: a controller attaches.
type simAttacher struct {
	volume.Attacher
	plugin simPlugin
}

// WaitForAttach returns the device of an attached volume.
func (a simAttacher) WaitForAttach(ctx context.Context, spec *volume.Spec, device string, _ *v1.Pod) (string, error) {
	if a.plugin.driver == simShared {
		metadata, err := a.plugin.program.attachments.WaitForAttachment(ctx, simShared, spec.PersistentVolume.Spec.CSI.VolumeHandle)
		if err != nil {
			return "", err
		}
		device = metadata[simDeviceKey]
	}
	n := a.plugin.program.node
	n.storage.Lock()
	defer n.storage.Unlock()
	if !n.hasCrashed() {
		n.checkDevice(n.diskOf(spec.Name()), device, "counts as attached")
	}
	return device, nil
}

// simDeviceKey is the key of the device in the metadata of a VolumeAttachment.
const simDeviceKey = "device"

func (p simPlugin) NewDeviceMounter() (volume.DeviceMounter, error) {
	mounter, err := p.FakePlugin.NewDeviceMounter()
	return simDeviceMounter{mounter, p}, err
}

type simDeviceMounter struct {
	volume.DeviceMounter
	plugin simPlugin
}

func (m simDeviceMounter) MountDevice(ctx context.Context, spec *volume.Spec, path string, args volume.DeviceMounterArgs) error {
	n := m.plugin.program.node
	n.storage.Lock()
	if !n.hasCrashed() {
		n.checkDevice(n.diskOf(spec.Name()), args.DevicePath, "is mounted")
	}
	n.storage.Unlock()
	return m.DeviceMounter.MountDevice(ctx, spec, path, args)
}
