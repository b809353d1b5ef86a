package diskprobe_test

import (
	"bytes"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/diskprobe"
)

const size = 8 << 20

// disk returns a disk with bytes at an offset, relative to the end if it is negative.
func disk(offset int64, content string) []byte {
	d := make([]byte, size)
	if offset < 0 {
		offset += size
	}
	copy(d[offset:], content)
	return d
}

func probe(t *testing.T, d []byte) []diskprobe.Found {
	t.Helper()
	found, err := diskprobe.Probe(bytes.NewReader(d), int64(len(d)))
	require.NoError(t, err)
	return found
}

// TestSignatures: each content is detected at its offset.
func TestSignatures(t *testing.T) {
	for _, test := range []struct {
		name    string
		kind    diskprobe.Kind
		offset  int64
		content string
	}{
		{"gpt", diskprobe.Table, 512, "EFI PART\x00\x00\x01\x00"},
		{"gpt", diskprobe.Table, 4096, "EFI PART\x00\x00\x01\x00"},
		{"gpt", diskprobe.Table, -512, "EFI PART\x00\x00\x01\x00"},
		{"gpt", diskprobe.Table, -4096, "EFI PART\x00\x00\x01\x00"},
		{"mbr", diskprobe.Table, 446, "\x80\x20\x21\x00\x83\x00\x00\x00\x00\x08\x00\x00\x00\x38\x00\x00" + string(make([]byte, 48)) + "\x55\xaa"},
		{"mac", diskprobe.Table, 512, "PM\x00\x00"},
		{"sun", diskprobe.Table, 508, "\xda\xbe"},
		{"lvm2", diskprobe.Member, 512, "LABELONE\x01\x00\x00\x00"},
		{"lvm2", diskprobe.Member, 0, "LABELONE"},
		{"linux_raid", diskprobe.Member, size - 65536, "\xfc\x4e\x2b\xa9\x00\x00\x00\x00\x5a"},  // 0.90
		{"linux_raid", diskprobe.Member, size - 8192, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00"},       // 1.0
		{"linux_raid", diskprobe.Member, 0, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00"},                 // 1.1
		{"linux_raid", diskprobe.Member, 4096, "\xfc\x4e\x2b\xa9\x01\x00\x00\x00"},              // 1.2
		{"linux_raid", diskprobe.Member, size - 65536, "\xa9\x2b\x4e\xfc\x00\x00\x00\x00\x00Z"}, // big endian
		{"isw_raid", diskprobe.Member, -1024, "Intel Raid ISM Cfg Sig. 1.3.00"},
		{"ddf_raid", diskprobe.Member, -512, "\xde\x11\xde\x11"},
		{"bcache", diskprobe.Member, 4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"},
		{"drbd", diskprobe.Member, -4036, "\x83\x74\x02\x6b"},
		{"zfs_member", diskprobe.Member, 128 << 10, "\x0c\xb1\xba\x00\x00\x00\x00\x00"},
		{"zfs_member", diskprobe.Member, -128<<10 + 5<<10, "\x00\x00\x00\x00\x00\xba\xb1\x0c"},
		{"vmfs", diskprobe.Member, 1 << 20, "\x0d\xd0\x01\xc0"},
		{"bluestore", diskprobe.Member, 0, "bluestore block device\n"},
		{"stratis", diskprobe.Member, 516, "!Stra0tis\x86\xff\x02^\x41rh"},
		{"swap", diskprobe.Swap, 4096 - 10, "SWAPSPACE2"},
		{"swap", diskprobe.Swap, 65536 - 10, "SWAPSPACE2"},
		{"luks", diskprobe.Encrypted, 0, "LUKS\xba\xbe\x00\x02"},
		{"luks", diskprobe.Encrypted, 16384, "SKUL\xba\xbe\x00\x02"},
		{"bitlocker", diskprobe.Encrypted, 3, "-FVE-FS-"},
		{"ntfs", diskprobe.FileSystem, 3, "NTFS    "},
		{"vfat", diskprobe.FileSystem, 82, "FAT32   "},
		{"iso9660", diskprobe.FileSystem, 32769, "CD001"},
		{"f2fs", diskprobe.FileSystem, 1024, "\x10\x20\xf5\xf2"},
		{"squashfs", diskprobe.FileSystem, 0, "hsqs"},
		{"xfs_external_log", diskprobe.Member, 1024, "\xfe\xed\xba\xbe\x00\x00\x00\x01"},
		{"refs", diskprobe.FileSystem, 0, "\x00\x00\x00ReFS\x00"},
		{"zonefs", diskprobe.FileSystem, 0, "SFOZ"},
		{"ubi", diskprobe.Member, 0, "UBI#\x01"},
		{"bfs", diskprobe.FileSystem, 0, "\xce\xfa\xad\x1b"},
		{"nvidia_raid", diskprobe.Member, -1024, "NVIDIA  "},
		{"promise_fasttrack_raid", diskprobe.Member, -256 * 512, "Promise Technology, Inc."},
		{"minix", diskprobe.FileSystem, 1040, "\x8f\x13"},
		{"bcachefs", diskprobe.FileSystem, 4096 + 24, "\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef"},
		{"data", diskprobe.Data, 2<<20 - 1, "\xff"},
		{"data", diskprobe.Data, -1, "\x01"},
	} {
		found := probe(t, disk(test.offset, test.content))
		require.Len(t, found, 1, "%s at %d: %v", test.name, test.offset, found)
		require.Equal(t, test.name, found[0].Name, test.offset)
		require.Equal(t, test.kind, found[0].Kind, test.name)
	}
}

// TestBlank: a disk of zeros is blank; data is found at the ends, and not in the middle.
func TestBlank(t *testing.T) {
	for _, n := range []int64{0, 1, 511, 4096, 65536, 1 << 20, 2 << 20, 2<<20 + 1, 3 << 20, size} {
		d := make([]byte, n)
		require.Empty(t, probe(t, d), n)
		if n > 0 {
			d[n-1] = 1
			require.Equal(t, []diskprobe.Found{{Name: "data", Kind: diskprobe.Data, Offset: n - 1}}, probe(t, d))
		}
	}
	d := disk(4<<20, "in the middle, where nobody looks")
	require.Empty(t, probe(t, d))
}

func TestReaderFails(t *testing.T) {
	_, err := diskprobe.Probe(bytes.NewReader(make([]byte, 100)), 4096)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, err = diskprobe.Probe(bytes.NewReader(nil), -1)
	require.Error(t, err)
}

// TestFormattedImages: Probe detects the results of the usual programs, and nothing beside them.
func TestFormattedImages(t *testing.T) {
	const id = "6d1b6e3c-2f1b-4d5e-9f57-0d4f3a2b1c0d"
	for _, test := range []struct {
		name    string
		size    int64
		command []string
	}{
		{"ext2", 32 << 20, []string{"mkfs.ext2", "-F", "-q", "-U", id}},
		{"ext3", 32 << 20, []string{"mkfs.ext3", "-F", "-q", "-U", id}},
		{"ext4", 32 << 20, []string{"mkfs.ext4", "-F", "-q", "-m0", "-U", id}},
		{"ext4", 32 << 20, []string{"mkfs.ext4", "-F", "-q", "-b", "1024", "-U", id}},
		{"ext4", 32 << 20, []string{"mkfs.ext4", "-F", "-q", "-O", "^64bit", "-U", id}},
		{"xfs", 320 << 20, []string{"mkfs.xfs", "-q", "-m", "uuid=" + id}},
		{"btrfs", 160 << 20, []string{"mkfs.btrfs", "-q", "-U", id}},
		{"swap", 32 << 20, []string{"mkswap", "-q"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := exec.LookPath(test.command[0]); err != nil {
				mounttest.SkipWithout(t, test.name, err)
			}
			image := filepath.Join(t.TempDir(), "image")
			require.NoError(t, os.WriteFile(image, nil, 0o600))
			require.NoError(t, os.Truncate(image, test.size))
			out, err := exec.Command(test.command[0], append(test.command[1:], image)...).CombinedOutput()
			require.NoError(t, err, string(out))
			f, err := os.Open(image)
			require.NoError(t, err)
			defer func() { _ = f.Close() }()
			found, err := diskprobe.Probe(f, test.size)
			require.NoError(t, err)
			require.Len(t, found, 1, "%v", found)
			require.Equal(t, test.name, found[0].Name)
			only, ok := diskprobe.Only(found)
			require.Equal(t, test.name != "swap", ok)
			if ok {
				require.Equal(t, id, only.UUID)
				require.Equal(t, test.size, only.Size)
			}
		})
	}
}

// TestHostileSizes: a superblock may state any size; too large ones become the largest int64.
func TestHostileSizes(t *testing.T) {
	all := strings.Repeat("\xff", 8)
	ext := make([]byte, 1024)
	copy(ext[56:], "\x53\xef")
	copy(ext[96:], "\xff") // 64 bits
	copy(ext[4:], all[:4]) // blocks
	copy(ext[336:], all[:4])
	for name, test := range map[string]struct {
		at      int64
		content string
		want    int64
	}{
		"ext4":       {1024, string(ext), math.MaxInt64},
		"block size": {1024, string(ext[:24]) + "\x07" + string(ext[25:]), 0},
		"xfs":        {0, "XFSB" + all + all, math.MaxInt64},
		"xfs, zero":  {0, "XFSB", 0},
		"btrfs":      {65536 + 64, "_BHRfS_M" + strings.Repeat("\xff", 200), math.MaxInt64},
	} {
		found := probe(t, disk(test.at, test.content))
		require.NotEmpty(t, found, name)
		require.Equal(t, test.want, found[0].Size, name)
	}
}

// TestTwoContents: two contents are both returned if both may count.
func TestTwoContents(t *testing.T) {
	ext := disk(1024+56, "\x53\xef")
	require.Equal(t, "ext2", probe(t, ext)[0].Name)
	spare := bytes.Clone(ext)
	copy(spare[size-512:], "EFI PART")
	only, ok := diskprobe.Only(probe(t, spare))
	require.True(t, ok, "the spare of a table that was overwritten")
	require.Equal(t, "ext2", only.Name)
	for offset, content := range map[int64]string{
		510: "\x55\xaa", 512: "EFI PART", 4096: "\xfc\x4e\x2b\xa9", size - 8192: "\xfc\x4e\x2b\xa9", 536: "LABELONE",
	} {
		both := bytes.Clone(ext)
		copy(both[offset:], content)
		found := probe(t, both)
		if content == "LABELONE" { // at an offset that is no sector's start
			require.Len(t, found, 1)
			continue
		}
		require.Len(t, found, 2, content)
		_, ok := diskprobe.Only(found)
		require.False(t, ok)
	}
	inodes := disk(1024, "BD") // a count of inodes that equals the mark of another file system
	copy(inodes[1024+56:], "\x53\xef")
	require.Len(t, probe(t, inodes), 1)
}

func FuzzProbe(f *testing.F) {
	f.Add([]byte("LUKS\xba\xbe"), uint32(0))
	f.Add([]byte("\x53\xef"), uint32(1024+56))
	f.Add([]byte("EFI PART"), uint32(size-512))
	f.Fuzz(func(t *testing.T, content []byte, offset uint32) {
		d := disk(int64(offset)%size, string(content))
		blank := !bytes.ContainsFunc(d, func(r rune) bool { return r != 0 })
		found := probe(t, d)
		if blank && len(found) > 0 {
			t.Errorf("a blank disk has %v", found)
		}
		inside := int(offset)%size >= 2<<20 && int(offset)%size+len(content) < size-1<<20
		if !blank && !inside && len(found) == 0 && int(offset)%size < 2<<20-len(content) {
			t.Errorf("%q at %d is nothing", content, offset)
		}
	})
}

// TestUnfinishedBtrfs: the remains of an interrupted mkfs have a UUID, unless the disk has
// other content.
func TestUnfinishedBtrfs(t *testing.T) {
	const super, tree = 64 << 10, 1 << 20
	id := "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"
	treeBlock := string(make([]byte, 32)) + id + "\x00\x00\x10\x00\x00\x00\x00\x00"
	superblock := string(make([]byte, 32)) + id + string(make([]byte, 16)) + "!BHRfS_M"
	for _, begun := range [][]byte{disk(tree, treeBlock), disk(super, superblock)} {
		both := bytes.Clone(begun)
		copy(both[tree:], treeBlock)
		for _, d := range [][]byte{begun, both} {
			found := probe(t, d)
			require.Len(t, found, 1)
			require.Equal(t, "btrfs, unfinished", found[0].Name)
			require.Equal(t, diskprobe.Data, found[0].Kind)
			require.Equal(t, "00112233-4455-6677-8899-aabbccddeeff", found[0].UUID)
		}
		for _, at := range []int64{0, 512, super - 1, super + 4096, tree - 1, size - 1} {
			d := bytes.Clone(begun)
			d[at] = 'x'
			found := probe(t, d)
			require.NotEmpty(t, found)
			for _, f := range found {
				require.Empty(t, f.UUID, at)
			}
		}
	}
	elsewhere := probe(t, disk(tree+4096, treeBlock))
	require.Equal(t, "data", elsewhere[0].Name)
	small := probe(t, disk(super, superblock)[:128<<10])
	require.Len(t, small, 1)
}
