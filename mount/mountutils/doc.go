// Package mountutils connects package mount and k8s.io/mount-utils: [New] makes a mounter of
// the former available to programs that are written against the latter, [From] the other way
// round.
//
//	mounter := mountutils.New(mount.New(mount.Config{})) // was: mount.New("")
//
// SafeFormatAndMount, ResizeFs, CleanupMountPoint and CleanupMountWithForce work
// with it. No program is run to mount or unmount, and no call waits for ever.
// [NewSafeFormatAndMount] and [NewResizeFs] return types with the same methods that format
// by package disk, instead of blkid and a guess.
//
// Programs that import k8s.io/utils/mount change to k8s.io/mount-utils first. Its Interface
// has four methods more: IsMountPoint, CanSafelySkipMountPointCheck,
// MountSensitiveWithoutSystemd and MountSensitiveWithoutSystemdWithMountFlags.
//
// # Differences
//
//	                      k8s.io/mount-utils        here
//	Mount again           stacks tmpfs and binds    the same request: no change; another one:
//	                                                mount.ErrMounted; see WithStacking
//	  on a mount that     the same                  *mount.FlagsError, since it lacks nosuid and
//	  mount(8) has made                             nodev: unmount it, remount it with them, or
//	                                                set Allow.SUID and Allow.Dev
//	  on dead FUSE        fails                     mount.ErrCorrupted, IsCorruptedMnt
//	  by another name     is refused, or stacks     no change: device numbers are compared, and
//	  of device, target                             links followed
//	Mount, type missing   is guessed                refused
//	Mount -o bind         then remount for flags    one step
//	Mount -o rbind,ro     read-only at the top      read-only, and all mounts below it
//	propagation           on a shared mount mounts  private, file systems and binds: later
//	                      are shared; a bind joins  mounts in a mount stay there, unless
//	                      its source's peer group   requested ("shared"); see WithPropagation
//	-o remount            may change file systems   changes flags of this mount alone
//	-o remount,bind where binds first               mount.ErrNotMounted
//	  nothing is mounted
//	set-user-ID, devices  honoured                  only with mount.Config.Allow: file systems and
//	                                                directories get nosuid and nodev
//	Mount -o bind of a    works                     works without Allow, as a raw block volume;
//	  device file                                   see WithoutDeviceFiles
//	a path "file/"        is refused                is the path "file"
//	mount.TYPE            mounts any type           the type itself, or those that
//	                                                mount.Config.HelperTypes names
//	ro and rw             the last one counts       refused
//	context=, and others  applied; dropped from     only with mount.Config.Allow.Context; a kernel
//	  of SELinux          a kernel without SELinux  without SELinux refuses it
//	loop=, move, helper=  work                      refused
//	sensitive options     in argv                   shown to the file system alone
//	Unmount               of a path or device       of a path; escalates by mount.UnmountPolicy
//	UnmountWithForce      forces after a time       the same as Unmount
//	List                  blanks as \040            as they are
//	GetMountRefs          none of a dead mount      all of it, without those that are hidden
//	IsMountPoint          queries the file system   reads the mount table: true for a dead mount
//	errors                text                      *mount.Error, *mount.InputError
//
// FormatAndMount and ResizeFs, by package disk:
//
//	                      k8s.io/mount-utils        here
//	unknown bytes         are formatted over        disk.ContentError; see ForNewDevice
//	types                 those with a mkfs.TYPE    ext2, ext3, ext4, xfs, btrfs
//	ext3 wanted as ext4   is mounted                disk.ContentError
//	a regular file        is formatted, mounted by  refused: attach a loop device first
//	                      a loop device             (package util/loop)
//	a mounted device      fsck -a, then mounted     mounted once more; one with another user is
//	                                                disk.ErrInUse
//	  read-only and       ext, xfs: is refused      the same: disk.ErrInUse
//	  writable at once
//	GetDiskFormat         "" for unknown bytes      "unknown data"
//	Resize of a path that ext: by the device alone  mount.ErrNotMounted; "" as the path means a
//	  is no mount point                             device that is not mounted
//	NeedResize of a       false                     disk.ErrNotFormatted
//	  blank device
//	MountError            a value: by assertion     by errors.As; errors.Is finds the causes of
//	                      err.(MountError), too     package disk
//
// Options for the file system ("nfsvers=4.1") are dropped from bind mounts, which have none,
// as by mount(8); so are options for readers of fstab ("_netdev", "x-systemd.automount") from
// all. Commas in double quotes split no option, as of an SELinux label with categories,
// context="system_u:object_r:container_file_t:s0:c1,c2". Symbolic links in paths are resolved
// first, and the mount then follows none.
package mountutils
