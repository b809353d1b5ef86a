// Package diskprobe tells what is on a disk: a file system, a partition table, a
// part of a RAID or volume group, swap, something encrypted, something unknown, or
// nothing at all. It is for programs that are about to format one.
//
// [Probe] reads where such things have their signatures, the first two MiB and the
// last one, and nothing else. It runs no program and knows nothing of devices: what
// it reads is an io.ReaderAt.
//
// It errs on the side of the data: a disk is blank only if every byte that was read
// is zero. It does not verify checksums: a damaged file system is one. What is only
// in the middle of a disk it does not see.
package diskprobe
