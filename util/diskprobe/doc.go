// Package diskprobe detects the content of a disk: a file system, a partition table, a
// part of a RAID or volume group, swap, encrypted or unknown data, or nothing at all. It is
// for programs that are about to format a disk.
//
// [Probe] reads the parts that have the signatures of such content, the first two MiB and
// the last one, and nothing else. It runs no program and opens no device: it reads an
// io.ReaderAt.
//
// It errs on the side of the data: a disk is blank only if every byte that was read is
// zero. It does not verify checksums: a damaged file system counts as a file system. It
// does not see content in the middle of a disk.
package diskprobe
