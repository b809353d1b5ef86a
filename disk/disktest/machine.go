package disktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/mount"
)

// A Machine has disks in memory. It is safe for concurrent use. Make one with [NewMachine].
type Machine struct {
	mu       sync.Mutex
	disks    map[string]*memory
	next     uint64
	exits    map[string]int
	hung     map[string]bool
	missing  map[string]bool
	commands []string
}

// NewMachine returns a machine without disks, on which all programs are installed.
func NewMachine() *Machine {
	return &Machine{disks: map[string]*memory{}, exits: map[string]int{}, hung: map[string]bool{}, missing: map[string]bool{}}
}

// Disks returns the disks of the machine. Its mounts are in mounter, such as a
// mounttest.Fake: a disk that is mounted there is in use.
func (m *Machine) Disks(mounter mount.Interface) *disk.Disks {
	return disk.New(disk.Config{Mounter: mounter, Devices: devices{m, mounter}, Programs: m.Programs()})
}

// Devices returns the disks, for a test that wraps them.
func (m *Machine) Devices() disk.Devices { return devices{m, nil} }

// Programs returns the programs, for a test that wraps them.
func (m *Machine) Programs() disk.Programs { return programs{m} }

// AddDisk adds a blank disk, instead of an earlier one at the path.
func (m *Machine) AddDisk(path string, size int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next++
	m.disks[path] = &memory{pages: map[int64][]byte{}, info: disk.Info{
		Path: path, Size: size, Identity: disk.Identity{ID: fmt.Sprint("disk-", m.next)},
	}}
}

// RemoveDisk removes a disk.
func (m *Machine) RemoveDisk(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.disks, path)
}

// Resize changes the size of a disk, as the storage of a volume that is expanded.
func (m *Machine) Resize(path string, size int64) {
	m.change(path, func(d *memory) { d.info.Size = size })
}

// SetReadOnly makes a disk read-only, or writable again.
func (m *Machine) SetReadOnly(path string, readOnly bool) {
	m.change(path, func(d *memory) { d.info.ReadOnly = readOnly })
}

// SetInUse gives a disk to another program, or takes the disk back.
func (m *Machine) SetInUse(path string, inUse bool) {
	m.change(path, func(d *memory) { d.inUse = inUse })
}

// Write writes to a disk, as another program does.
func (m *Machine) Write(path string, at int64, data string) {
	m.change(path, func(d *memory) { d.write([]byte(data), at) })
}

func (m *Machine) change(path string, change func(*memory)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.disks[path]; d != nil {
		change(d)
	}
}

// Fail lets a program such as "mkfs.xfs" end with an exit status, and do nothing. Zero
// ends the fault.
func (m *Machine) Fail(program string, exitCode int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.exits[program] = exitCode
}

// Hang lets a program run until its context ends.
func (m *Machine) Hang(program string, hung bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hung[program] = hung
}

// Uninstall removes a program.
func (m *Machine) Uninstall(program string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.missing[program] = true
}

// Commands returns the command lines of all programs that ran.
func (m *Machine) Commands() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

// devices implements disk.Devices.
type devices struct {
	*Machine
	mounter mount.Interface // nil: nothing is mounted
}

// Open implements disk.Devices.
func (m devices) Open(path string) (disk.Handle, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disks[path]
	switch {
	case d == nil:
		return nil, &os.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	case d.info.Size == 0:
		return nil, disk.ErrNoMedium
	}
	return &handle{m.Machine, m.mounter, d, d.info}, nil
}

// Identify implements disk.Devices.
func (m devices) Identify(path string) (disk.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.disks[path]
	if d == nil {
		return disk.Info{}, &os.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
	}
	return d.info, nil
}

// A memory is a disk: pages that were never written are zeros.
type memory struct {
	info  disk.Info
	inUse bool
	pages map[int64][]byte
}

const pageSize = 4 << 10

func (d *memory) write(data []byte, at int64) {
	for len(data) > 0 {
		number, offset := at/pageSize, at%pageSize
		if d.pages[number] == nil {
			d.pages[number] = make([]byte, pageSize)
		}
		n := copy(d.pages[number][offset:], data)
		data, at = data[n:], at+int64(n)
	}
}

func (d *memory) read(into []byte, at int64) {
	for len(into) > 0 {
		number, offset := at/pageSize, at%pageSize
		n := int(min(int64(len(into)), pageSize-offset))
		if page := d.pages[number]; page != nil {
			copy(into[:n], page[offset:])
		} else {
			clear(into[:n])
		}
		into, at = into[n:], at+int64(n)
	}
}

// A handle implements disk.Handle.
type handle struct {
	machine *Machine
	mounter mount.Interface
	disk    *memory
	info    disk.Info
}

// Info implements disk.Handle.
func (h *handle) Info() disk.Info { return h.info }

// File implements disk.Handle.
func (h *handle) File() *os.File { return nil }

// Close implements io.Closer.
func (h *handle) Close() error { return nil }

// InUse implements disk.Handle.
func (h *handle) InUse(ctx context.Context, _ string) (bool, error) {
	h.machine.mu.Lock()
	inUse := h.disk.inUse
	h.machine.mu.Unlock()
	if inUse || h.mounter == nil {
		return inUse, nil
	}
	mounts, err := h.mounter.MountsFrom(ctx, h.info.Path)
	return len(mounts) > 0, err
}

// ReadAt implements io.ReaderAt.
func (h *handle) ReadAt(into []byte, at int64) (int, error) {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	if at >= h.disk.info.Size {
		return 0, io.EOF
	}
	n := int(min(int64(len(into)), h.disk.info.Size-at))
	h.disk.read(into[:n], at)
	if n < len(into) {
		return n, io.EOF
	}
	return n, nil
}

// Write implements disk.Handle.
func (h *handle) Write(write func(io.WriterAt) error) error { return write(h) }

// WriteAt implements io.WriterAt.
func (h *handle) WriteAt(data []byte, at int64) (int, error) {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	switch {
	case h.disk.info.ReadOnly:
		return 0, syscall.EPERM
	case at+int64(len(data)) > h.disk.info.Size:
		return 0, syscall.ENOSPC
	}
	h.disk.write(data, at)
	return len(data), nil
}

// programs implements disk.Programs.
type programs struct{ *Machine }

var errNotInstalled = errors.New("uninstalled by the test")

// LookPath implements disk.Programs.
func (m programs) LookPath(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.lookPath(name)
}

func (m programs) lookPath(name string) error {
	if !m.missing[name] {
		return nil
	}
	return &disk.ToolError{Tool: name, ExitCode: -1, Err: fmt.Errorf("%w: %w", disk.ErrToolMissing, errNotInstalled)}
}

// Run implements disk.Programs.
func (m programs) Run(ctx context.Context, c disk.Command) error {
	hung, err := m.start(c)
	if hung {
		<-ctx.Done()
		return &disk.ToolError{Tool: c.Name, ExitCode: -1, Err: context.Cause(ctx)}
	}
	return err
}

func (m programs) start(c disk.Command) (hung bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.commands = append(m.commands, strings.Join(append([]string{c.Name}, c.Args...), " "))
	if err := m.lookPath(c.Name); err != nil {
		return false, err
	}
	d := m.disks[c.Path]
	if code := m.exits[c.Name]; code != 0 || d == nil {
		return false, &disk.ToolError{Tool: c.Name, ExitCode: max(code, 1)}
	}
	if m.hung[c.Name] {
		return true, nil
	}
	if fsType, ok := strings.CutPrefix(c.Name, "mkfs."); ok {
		return false, d.format(fsType, c.Args)
	}
	if slices.Contains([]string{"resize2fs", "xfs_growfs"}, c.Name) || c.Name == "btrfs" && slices.Contains(c.Args, "resize") {
		d.grow()
	}
	return false, nil
}
