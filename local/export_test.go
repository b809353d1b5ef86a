package local

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
)

// LockExclusively locks a directory as a SetUp does that changes its owners.
func (p *Plugin) LockExclusively(ctx context.Context, dir string) (release func(), err error) {
	_, release, err = p.lockDir(ctx, dir, exclusiveLock)
	return release, err
}

// MakeExt4 writes as much of a superblock as is looked at.
var MakeExt4 = makeExt4

// SetPrograms replaces the programs of the system. It is to be called before Init.
func (p *Plugin) SetPrograms(programs disk.Programs) { p.programs = programs }

// UseFiles takes files for block devices, and formats them without any program. It is
// to be called before Init.
func (p *Plugin) UseFiles() {
	p.nodes, p.devices, p.programs = fileNodes{}, fileDevices{}, filePrograms{}
}

// fileNodes takes regular files for nodes of devices.
type fileNodes struct{ kernelNodes }

func (n fileNodes) kind(name string) (kind, error) {
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
		return kindDevice, nil
	}
	return n.kernelNodes.kind(name)
}

type fileDevices struct{}

// Open implements disk.Devices.
func (fileDevices) Open(node string) (disk.Handle, error) {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return fileHandle{f, disk.Info{Path: node, Size: info.Size(), Identity: disk.Identity{ID: node}}}, nil
}

// Identify implements disk.Devices.
func (fileDevices) Identify(node string) (disk.Info, error) {
	return disk.Info{Path: node, Identity: disk.Identity{ID: node}}, nil
}

type fileHandle struct {
	file *os.File
	info disk.Info
}

func (h fileHandle) File() *os.File                         { return nil }
func (h fileHandle) Close() error                           { return h.file.Close() }
func (h fileHandle) ReadAt(b []byte, at int64) (int, error) { return h.file.ReadAt(b, at) }

func (h fileHandle) Info() disk.Info                             { return h.info }
func (h fileHandle) InUse(context.Context, string) (bool, error) { return false, nil }
func (h fileHandle) Write(write func(io.WriterAt) error) error   { return write(h.file) }

// filePrograms write the magic number of mkfs.ext4, and no file system.
type filePrograms struct{}

func (filePrograms) LookPath(string) error { return nil }

func (filePrograms) Run(_ context.Context, c disk.Command) error {
	if c.Name == "mkfs.ext4" {
		return makeExt4(c.Path, c.Args[slices.Index(c.Args, "-U")+1])
	}
	return nil
}

// makeExt4 writes as much of a superblock as is looked at.
func makeExt4(file, uuid string) error {
	id, err := hex.DecodeString(strings.ReplaceAll(uuid, "-", ""))
	if err != nil {
		return err
	}
	sb := make([]byte, 128)
	sb[56], sb[57], sb[96] = 0x53, 0xef, 0x40
	copy(sb[104:], id)
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(sb, 1024)
	return errors.Join(err, f.Close())
}

// ConfigOf returns the configuration of a plugin, with another mounter.
func ConfigOf(p *Plugin, m mount.Interface) Config {
	config := p.config
	config.Mounter = m
	return config
}

// IsRoomier decides between two roots.
var IsRoomier = isRoomier

// ReadRecord reads the record of a volume.
func (p *Plugin) ReadRecord(volumeName string) error {
	_, err := p.records.read(volumeName)
	return err
}

// WriteBlockRecord writes the record of a raw device.
func (p *Plugin) WriteBlockRecord(volumeName, device string) error {
	return p.records.write(volumeName, record{State: stateBlock, Path: device})
}

// WriteFormatRecord writes the record of an unfinished format of a disk.
func (p *Plugin) WriteFormatRecord(volumeName string, of disk.Identity) error {
	return p.records.write(volumeName, record{State: stateFormatting, Path: "/dev/x", FSType: "ext4", FSUUID: "u", Disk: of})
}

// DisownRecords removes the records of other volumes' unfinished formats of a disk.
func (p *Plugin) DisownRecords(volumeName string, of disk.Identity) error {
	return p.records.disown(volumeName, of)
}
