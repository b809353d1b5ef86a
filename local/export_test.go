package local

import (
	"context"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/util/diskprobe"
	utilexec "k8s.io/utils/exec"
)

// NewCommand is what runs the programs of the system.
var NewCommand = newCommand

// MakeExt4 writes as much of a superblock as is looked at.
var MakeExt4 = makeExt4

// SetPrograms replaces the programs of the system. It is to be called before Init.
func (p *Plugin) SetPrograms(run func(ctx context.Context, name string, args ...string) utilexec.Cmd) {
	p.run = run
}

// UseFiles takes files for block devices, and formats them without any program. It is
// to be called before Init.
func (p *Plugin) UseFiles() {
	p.devices = fileDevices{}
	p.run = func(_ context.Context, name string, args ...string) utilexec.Cmd {
		return runOnFile(name, args)
	}
}

type fileDevices struct{ nodeDevices }

func (d fileDevices) kind(name string) (kind, error) {
	if info, err := os.Lstat(name); err == nil && info.Mode().IsRegular() {
		return kindDevice, nil
	}
	return d.nodeDevices.kind(name)
}

func (fileDevices) open(node string) (disk, error) {
	f, err := os.OpenFile(node, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return fileDisk{f, diskFacts{node: node, size: info.Size(), identity: identity{ID: node}}}, nil
}

func (fileDevices) identify(node string) (diskFacts, error) {
	return diskFacts{node: node, identity: identity{ID: node}}, nil
}

type fileDisk struct {
	*os.File
	known diskFacts
}

func (d fileDisk) facts() diskFacts           { return d.known }
func (d fileDisk) file() *os.File             { return d.File }
func (d fileDisk) inUse(string) (bool, error) { return false, nil }
func (d fileDisk) handle() string             { return d.known.node }
func (d fileDisk) mark(sector []byte) error {
	_, err := d.WriteAt(sector, 0)
	return err
}

func (d fileDisk) wipe(context.Context, []byte) error {
	return errors.Join(d.Truncate(0), d.Truncate(d.known.size))
}

// runOnFile does what blkid, mkfs.ext4 and fsck do, as far as anybody looks.
func runOnFile(name string, args []string) answer {
	file := args[len(args)-1]
	switch name {
	case "mkfs.ext4":
		return answer{err: makeExt4(file, args[slices.Index(args, "-U")+1])}
	case "blkid":
		d, err := fileDevices{}.open(file)
		if err != nil {
			return answer{err: err}
		}
		defer func() { _ = d.Close() }()
		found, err := diskprobe.Probe(d, d.facts().size)
		if err != nil || len(found) > 0 {
			return answer{output: "TYPE=ext4\n", err: err}
		}
		return answer{err: utilexec.CodeExitError{Code: 2, Err: errors.New("nothing found")}}
	}
	return answer{}
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
