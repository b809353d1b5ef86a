package mount

import (
	"strconv"
	"time"

	"github.com/volumekit/volumekit/mount/internal/building"
)

// Config configures a [Mounter]. The zero value is ready for use.
type Config struct {
	// Allow permits options that requests may not have otherwise.
	Allow Allow

	// StagingDir is used on kernels before 5.12 only: mounts are built in a directory below
	// it and moved to their target when they are complete. It is created if it is missing,
	// and must be absolute and not writable for others. The first call of a process removes
	// the remains of a killed process. Empty: "/run/volumekit", or a directory of the user's
	// in os.TempDir() if that cannot be created.
	StagingDir string

	// Tier fixes the system calls to mount with. The zero value selects the best tier of the
	// kernel; tests set it to run the others.
	Tier Tier

	// Helpers are the directories to search for the program mount.TYPE of a file system type.
	// Nil: for network file systems (nfs, cifs, ceph, glusterfs) the system's, /sbin and the
	// like; for other types none. Without a program NFS is mounted by the kernel alone.
	//
	// A program mounts in a private directory, and its mount is moved to the target. It is
	// killed with its process group when the context ends. It gets secrets in a file in
	// memory, as the credentials of cifs and the secret of ceph; other secrets are refused. A
	// secret "credentials=FILE" of cifs is such a file: the content of FILE is copied. Its
	// failure is a [*HelperError].
	Helpers []string

	// HelperTypes are further file system types that a program mount.TYPE mounts; Helpers are
	// searched for them as for network file systems. Without an entry the program's mount
	// must have the type and the source of the request.
	HelperTypes map[string]HelperType

	// Unmount limits the escalation of Unmount for a mount whose file system does not answer.
	// The zero value permits all steps.
	Unmount UnmountPolicy
}

// A HelperType describes the mounts of the program for a file system type:
//
//	"efs":        {MountedAs: []string{"nfs4"}, AnySource: true},
//	"s3fs":       {MountedAs: []string{"fuse.s3fs"}},
//	"fuse.sshfs": {}, // by mount.fuse.sshfs, or by mount.fuse, as mount(8) does
//
// The program mounts in a private directory. A program that records its mount point, and
// looks for the mount there later, cannot be used.
type HelperType struct {
	// MountedAs are the types that the mount table shows. Empty: the type itself, and
	// "fuse." with it.
	MountedAs []string
	// AnySource accepts another source than the request's in the mount table. A repeated
	// Mount then accepts a mount of the type with any source as the requested one.
	AnySource bool
}

// An UnmountPolicy limits the escalation of Unmount for a busy mount whose file system does
// not answer: a dead server, a FUSE daemon that hangs or has died. A busy mount of a file
// system that answers is never unmounted: that is [ErrBusy]. Nor is one with other mounts
// inside, nor one of a disk, dead or not: only a write would show that a disk is dead. A mount
// whose directory was removed on the server counts as one that does not answer. An idle mount is
// unmounted under every policy.
//
// Calls that may have to wait for a dead file system, the query whether it answers and the
// release of its last mount, are made by child processes, which share the memory of this
// process, as after vfork(2), until they have ended; signals and os/exec do not see them. A
// child that waits for the end of a file system has released all memory and files.
type UnmountPolicy struct {
	// Last is the last permitted step. The steps before it are tried first.
	Last UnmountStep
	// Grace limits the wait for the file system's answer, and then for each step, before the
	// next step. It begins with the first call that finds the mount in this state, also if
	// that call has returned since. Zero: 10 seconds.
	Grace time.Duration
}

// An UnmountStep is a step of the escalation, each harder than the ones before it.
type UnmountStep int

const (
	// UnmountQuarantine detaches the mount from the tree at once, in use or not
	// (MNT_DETACH), with a guard process that waits for its end, so that this process can
	// exit.
	UnmountQuarantine UnmountStep = iota
	// UnmountPlain is umount2(2) without flags.
	UnmountPlain
	// UnmountForce aborts calls that wait for the server (MNT_FORCE), and unmounts.
	UnmountForce
)

func (p UnmountPolicy) check() error {
	switch {
	case p.Last < UnmountQuarantine || p.Last > UnmountForce:
		return inputError("Config.Unmount.Last", strconv.Itoa(int(p.Last)), "must be UnmountQuarantine, UnmountPlain or UnmountForce")
	case p.Grace < 0:
		return inputError("Config.Unmount.Grace", p.Grace.String(), "must be at least 0")
	}
	return nil
}

func (p UnmountPolicy) grace() time.Duration {
	if p.Grace == 0 {
		return 10 * time.Second
	}
	return p.Grace
}

// Allow permits options beyond the safe ones. Without it mounts are nosuid and nodev.
type Allow struct {
	SUID    bool // honour set-user-ID files: accept "suid", do not add "nosuid"
	Dev     bool // honour all device files: accept "dev", do not add "nodev"; see Request.DeviceFile
	Context bool // accept the SELinux options "context=", "fscontext=", "defcontext=", "rootcontext="
}

// A Tier names the system calls that a [Mounter] mounts with. All keep the same
// promises.
type Tier int

const (
	// TierAuto is the best tier that the kernel offers.
	TierAuto Tier = iota
	// TierClassic is mount(2) in a private staging directory, any kernel.
	TierClassic
	// TierDetached is fsopen, open_tree and mount_setattr: Linux 5.12.
	TierDetached
	// TierTreeAttr clones a tree and sets its flags in one call, open_tree_attr:
	// Linux 6.15.
	TierTreeAttr
)

// String returns the tier's name.
func (t Tier) String() string { return building.Tier(t).String() }
