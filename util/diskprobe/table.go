package diskprobe

import "encoding/hex"

// A mark is a signature at fixed offsets.
type mark struct {
	name  string
	kind  Kind
	at    []int64 // relative to the end of the disk if negative
	magic string
}

func offsets(all ...int64) []int64 { return all }

// bytesOf decodes hexadecimal digits.
func bytesOf(digits string) string {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err) // a mistake in the table
	}
	return string(b)
}

var fs, members = FileSystem, Member

// marks are unambiguous signatures. File systems whose signatures need more than fixed
// offsets have functions of their own.
var marks = []mark{
	{"xfs", fs, offsets(0), "XFSB"},
	{"f2fs", fs, offsets(1024), bytesOf("1020f5f2")},
	{"reiserfs", fs, offsets(8192+52, 65536+52), "ReIsEr"},
	{"reiser4", fs, offsets(65536), "ReIsEr4"},
	{"jfs", fs, offsets(32768), "JFS1"},
	{"ntfs", fs, offsets(3), "NTFS    "},
	{"exfat", fs, offsets(3), "EXFAT   "},
	{"vfat", fs, offsets(54), "FAT12   "},
	{"vfat", fs, offsets(54), "FAT16   "},
	{"vfat", fs, offsets(82), "FAT32   "},
	{"iso9660", fs, offsets(32769), "CD001"},
	{"udf", fs, offsets(32769), "BEA01"},
	{"udf", fs, offsets(34817, 36865), "NSR0"},
	{"squashfs", fs, offsets(0), "hsqs"},
	{"squashfs", fs, offsets(0), "sqsh"},
	{"cramfs", fs, offsets(0), bytesOf("453dcd28")},
	{"romfs", fs, offsets(0), "-rom1fs-"},
	{"erofs", fs, offsets(1024), bytesOf("e2e1f5e0")},
	{"hfsplus", fs, offsets(1024), bytesOf("482b0004")},
	{"hfsplus", fs, offsets(1024), bytesOf("48580005")},
	{"apfs", fs, offsets(32), "NXSB"},
	{"ufs", fs, offsets(8192+1372, 65536+1372), bytesOf("54190100")},
	{"ufs2", fs, offsets(8192+1372, 65536+1372), bytesOf("19015419")},
	{"ocfs2", fs, offsets(1024, 2048, 4096, 8192), "OCFSV2"},
	{"gfs2", fs, offsets(65536), bytesOf("01161970")},
	{"vxfs", fs, offsets(1024), bytesOf("f5fc01a5")},
	{"vmfs", members, offsets(1 << 20), bytesOf("0dd001c0")},
	{"bcachefs", fs, offsets(4096 + 24), bytesOf("c68573f666ce90a9d96a60cf803df7ef")},

	{"gpt", Table, offsets(512, 4096), "EFI PART"},
	{"bsd", Table, offsets(64, 512), bytesOf("57455682")},
	{"aix", Table, offsets(0), bytesOf("c9c2d4c1")},

	{"lvm2", members, offsets(0, 512, 1024, 1536), "LABELONE"},
	{"linux_raid", members, offsets(0, 4096), bytesOf("fc4e2ba9")}, // version 1.1, 1.2
	{"linux_raid", members, offsets(0, 4096), bytesOf("a92b4efc")},
	{"ddf_raid", members, offsets(-512, -131584), bytesOf("de11de11")},
	{"isw_raid", members, offsets(-1024), "Intel Raid ISM Cfg Sig."},
	{"bcache", members, offsets(4096 + 24), bytesOf("c68573f64e1a45ca8265f57f48ba6d81")},
	{"drbd", members, offsets(-4096 + 60), bytesOf("8374026b")},
	{"stratis", members, offsets(512+4, 4608+4), "!Stra0tis"},
	{"vdo", members, offsets(0), "dmvdo001"},
	{"bluestore", members, offsets(0), "bluestore block device"},
	{"oracleasm", members, offsets(32), "ORCLDISK"},
	{"dm_integrity", members, offsets(0), "integrt\x00"},
	{"dm_verity", members, offsets(0), "verity\x00\x00"},
	{"dm_snapshot", members, offsets(0), "SnAp"},

	{"swap", Swap, beforePages, "SWAPSPACE2"},
	{"swap", Swap, beforePages, "SWAP-SPACE"},
	{"swsuspend", Swap, beforePages, "S1SUSPEND"},
	{"swsuspend", Swap, beforePages, "ULSUSPEND"},
	{"swsuspend", Swap, beforePages, "LINHIB0001"},

	{"luks", Encrypted, offsets(0), bytesOf("4c554b53babe")},
	{"luks", Encrypted, offsets(16<<10, 32<<10, 64<<10, 128<<10, 256<<10, 512<<10, 1<<20), bytesOf("534b554cbabe")},
	{"bitlocker", Encrypted, offsets(3), "-FVE-FS-"},
}

// beforePages are the offsets of swap's signature: ten bytes before the end of the first
// page, for each page size.
var beforePages = offsets(4096-10, 8192-10, 16384-10, 32768-10, 65536-10)

// firstSectors are the sectors among which the first record of an xfs log is.
var firstSectors = func() (all []int64) {
	for at := int64(0); at < 256<<10; at += 512 {
		all = append(all, at)
	}
	return all
}()

// promiseEnds are where the Promise RAIDs have their signature.
var promiseEnds = offsets(-63*512, -255*512, -256*512, -16*512, -399*512, -591*512, -675*512, -735*512, -911*512, -974*512, -991*512, -951*512)

// weak are signatures so short, or in such places, that other content may equal or contain
// them: they count only if nothing else is detected.
var weak = []mark{
	{"xfs_external_log", members, firstSectors, bytesOf("feedbabe")},
	{"refs", fs, offsets(0), "\x00\x00\x00ReFS\x00"},
	{"zonefs", fs, offsets(0), "SFOZ"},
	{"ubi", members, offsets(0), "UBI#"},
	{"ubifs", fs, offsets(0), bytesOf("31181006")},
	{"bfs", fs, offsets(0), bytesOf("cefaad1b")},
	{"befs", fs, offsets(32, 544), "BFS1"},
	{"befs", fs, offsets(32, 544), "1SFB"},
	{"hpfs", fs, offsets(8192), bytesOf("49e895f9")},
	{"nss", fs, offsets(4096), "SPB5"},
	{"exfs", fs, offsets(0), "EXFS"},
	{"ocfs", fs, offsets(8192), "OracleCFS"},
	{"vxfs", fs, offsets(8192), bytesOf("a501fcf5")},
	{"lsi_mega_raid", members, offsets(-512), "$XIDE$"},
	{"nvidia_raid", members, offsets(-1024), "NVIDIA"},
	{"promise_fasttrack_raid", members, promiseEnds, "Promise Technology, Inc."},
	{"hfs", fs, offsets(1024), "BD"},
	{"nilfs2", fs, offsets(1024 + 6), bytesOf("3434")},
	{"minix", fs, offsets(1024 + 16), bytesOf("7f13")},
	{"minix", fs, offsets(1024 + 16), bytesOf("8f13")},
	{"minix", fs, offsets(1024 + 16), bytesOf("6824")},
	{"minix", fs, offsets(1024 + 16), bytesOf("7824")},
	{"minix", fs, offsets(1024 + 24), bytesOf("5a4d")},
	{"lvm1", members, offsets(0), "HM"},
	{"mac", Table, offsets(512), "PM"},
	{"sun", Table, offsets(508), bytesOf("dabe")},
}
