package kernels

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFind(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(cacheVar, cache)
	_, err := Find("6.1")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "6.1 has to be fetched first")

	dir := cache + "/6.1"
	for _, file := range []string{"/usr/bin/linux.uml", "/usr/lib/uml/modules/6.1.176/modules.dep", "/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(dir+file), 0o755))
		require.NoError(t, os.WriteFile(dir+file, nil, 0o600))
	}
	require.NoError(t, os.Symlink("lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", dir+"/ld.so"))
	k, err := Find("6.1")
	require.NoError(t, err)
	require.Equal(t, Kernel{
		Dir:       dir,
		Program:   dir + "/usr/bin/linux.uml",
		Libraries: dir + "/lib/x86_64-linux-gnu",
		Modules:   dir + "/usr/lib/uml/modules/6.1.176",
	}, k)
}

func TestUnknownKernels(t *testing.T) {
	t.Setenv(cacheVar, t.TempDir())
	for _, name := range []string{"", "5.0", "../6.1", "bookworm"} {
		_, err := Find(name)
		require.ErrorContains(t, err, "none of")
		_, err = Fetch(t.Context(), name)
		require.ErrorContains(t, err, "none of")
	}
}

func TestSetInterpreter(t *testing.T) {
	const before = "/lib64/ld-linux-x86-64.so.2\x00"
	tests := []struct {
		path, want string
	}{
		{"ld.so", "ld.so" + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"/lib64/as-long-as-before.so", "/lib64/as-long-as-before.so\x00"},
		{"/lib64/longer-than-before.so", ""},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "program")
			require.NoError(t, os.WriteFile(name, program(t, elf.PT_INTERP, before), 0o600))
			err := setInterpreter(name, test.path)
			got, readErr := os.ReadFile(name)
			require.NoError(t, readErr)
			if test.want == "" {
				require.Error(t, err)
				test.want = before
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, program(t, elf.PT_INTERP, test.want), got)
		})
	}
}

func TestNoInterpreter(t *testing.T) {
	name := filepath.Join(t.TempDir(), "program")
	require.NoError(t, os.WriteFile(name, program(t, elf.PT_NOTE, "note"), 0o600))
	require.ErrorContains(t, setInterpreter(name, "ld.so"), "no loader")
	require.NoError(t, os.WriteFile(name, []byte("#!/bin/sh\n"), 0o600))
	require.Error(t, setInterpreter(name, "ld.so"))
	require.ErrorIs(t, setInterpreter(name+"-none", "ld.so"), fs.ErrNotExist)
}

// program returns an ELF file with one segment.
func program(t *testing.T, kind elf.ProgType, segment string) []byte {
	t.Helper()
	const headerSize, progSize = 64, 56
	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(elf.EM_X86_64),
		Version: uint32(elf.EV_CURRENT),
		Phoff:   headerSize, Ehsize: headerSize,
		Phentsize: progSize, Phnum: 1,
	}
	prog := elf.Prog64{Type: uint32(kind), Off: headerSize + progSize, Filesz: uint64(len(segment))}
	var file bytes.Buffer
	require.NoError(t, binary.Write(&file, binary.LittleEndian, header))
	require.NoError(t, binary.Write(&file, binary.LittleEndian, prog))
	file.WriteString(segment)
	return file.Bytes()
}

func TestFindMountNFS(t *testing.T) {
	cache := t.TempDir()
	t.Setenv(cacheVar, cache)
	_, err := FindMountNFS()
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "mount.nfs has to be fetched first")

	dir := cache + "/mount.nfs"
	for _, file := range []string{"/sbin/mount.nfs", "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libmount.so.1"} {
		require.NoError(t, os.MkdirAll(filepath.Dir(dir+file), 0o755))
		require.NoError(t, os.WriteFile(dir+file, nil, 0o600))
	}
	p, err := FindMountNFS()
	require.NoError(t, err)
	libraries := dir + "/lib/x86_64-linux-gnu:" + dir + "/usr/lib/x86_64-linux-gnu"
	require.Equal(t, []string{dir + "/ld.so", "--library-path", libraries, dir + "/sbin/mount.nfs"}, p.Command)
}
