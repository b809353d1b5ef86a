// Package disktest has disks in memory, for the tests of programs that format, mount and
// grow disks with package disk. A test needs no privilege, no device and no program, and
// runs on every system that Go builds for.
//
//	mounter := mounttest.NewFake(mount.Config{})
//	machine := disktest.NewMachine()
//	machine.AddDisk("/dev/vdb", 1<<30)
//	disks := machine.Disks(mounter) // instead of disk.New
//
// All decisions are those of package disk. The programs are fakes: mkfs writes a
// superblock, fsck succeeds, and the programs that grow change the size in the superblock.
// [Machine.Fail] and [Machine.Hang] inject faults; [Machine.Commands] is the log.
//
// The work of the real programs and of the kernel needs a test with loop devices.
package disktest
