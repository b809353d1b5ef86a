package mount

import (
	"strconv"
	"time"
)

// Config configures a [Mounter]. The zero value is ready for use.
type Config struct {
	// Allow grants what requests are refused otherwise.
	Allow Allow

	// StagingDir is used on kernels before 5.12 only: mounts are made in a
	// directory below it and moved to their target when they are complete. It is
	// created if need be, and must be absolute and not writable for others. What a
	// killed process has left in it is removed by the first call of the next one.
	// Empty: "/run/volumekit", or a directory of the user's in os.TempDir() where
	// that cannot be made.
	StagingDir string

	// Tier fixes the system calls to mount with. The zero value takes the best
	// that the kernel offers; tests set it to run the others.
	Tier Tier

	// Helpers are the directories in which to look for the program mount.TYPE of a
	// file system type. Nil: for network file systems (nfs, cifs, ceph, glusterfs)
	// those of the system, /sbin and its like; for other types none is needed. NFS
	// is mounted without a program where there is none.
	//
	// A program mounts in a private place, from where what it has mounted is taken to
	// the target. It is killed with its process group when the context ends. It gets
	// secrets in a file in memory, as the credentials of cifs and the secret of ceph;
	// others are refused. Its failure is a [*HelperError].
	Helpers []string

	// Unmount says how far Unmount goes with a mount whose file system does not
	// answer. The zero value goes all the way.
	Unmount UnmountPolicy
}

// An UnmountPolicy is what Unmount does about a busy mount whose file system does
// not answer: a dead server, a FUSE daemon that hangs or has died. A busy mount of
// one that answers is never taken down: that is [ErrBusy]. So is one with other
// mounts inside, and one of a disk, dead or not: nothing short of writing tells. An
// idle mount is unmounted like any other, whatever the policy.
//
// What may have to wait for a dead file system, the question whether it answers and
// its end, is left to child processes, which share the memory of this one, as
// after vfork(2), until they have ended; signals and os/exec do not see them. One
// that waits for the end has let go of all memory and files.
type UnmountPolicy struct {
	// Last is the last step to take. Those before it are tried first.
	Last UnmountStep
	// Grace is how long the file system gets to answer, and then each step to
	// succeed, before the next is taken. It begins with the first call that finds the
	// mount so, even if that has given up since. Zero: 10 seconds.
	Grace time.Duration
}

// An UnmountStep is a way to unmount, each harder than the ones before it.
type UnmountStep int

const (
	// UnmountQuarantine takes the mount out of the tree at once, in use or not
	// (MNT_DETACH), with a guard outside this process to wait for its end, so that
	// the process can exit.
	UnmountQuarantine UnmountStep = iota
	// UnmountPlain is umount2(2) without flags.
	UnmountPlain
	// UnmountForce aborts what waits for the server (MNT_FORCE), and unmounts.
	UnmountForce
)

func (p UnmountPolicy) check() error {
	switch {
	case p.Last < UnmountQuarantine || p.Last > UnmountForce:
		return inputError("Config.Unmount.Last", strconv.Itoa(int(p.Last)), "no such step")
	case p.Grace < 0:
		return inputError("Config.Unmount.Grace", p.Grace.String(), "a time is needed")
	}
	return nil
}

func (p UnmountPolicy) grace() time.Duration {
	if p.Grace == 0 {
		return 10 * time.Second
	}
	return p.Grace
}

// Allow says which options a request may have beyond the safe ones. Mounts are
// nosuid and nodev unless it says otherwise.
type Allow struct {
	SUID    bool // honour set-user-ID files: accept "suid", do not add "nosuid"
	Dev     bool // honour device files: accept "dev", do not add "nodev"
	Context bool // accept the SELinux options "context=", "fscontext=", ...
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

var tierNames = map[Tier]string{
	TierAuto:     "auto",
	TierClassic:  "classic",
	TierDetached: "detached",
	TierTreeAttr: "tree-attr",
}

// String returns the tier's name.
func (t Tier) String() string {
	if name, ok := tierNames[t]; ok {
		return name
	}
	return "unknown tier"
}
