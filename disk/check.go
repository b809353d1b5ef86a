package disk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/util/progress"
)

// A CheckRequest is a file system to check while it is not mounted.
type CheckRequest struct {
	Device string
	// Repair lets fsck make the repairs that need no decision (fsck -a): ext2, ext3 and ext4. Xfs
	// and btrfs repair themselves while they are mounted; Repair does nothing for them.
	Repair bool
}

// A CheckResult is a file system without known errors.
type CheckResult struct {
	FSType string
	// Repaired: fsck has found and repaired errors.
	Repaired bool
}

// Check runs the checking program of the file system on a device that is not in use. Errors
// that stay are ErrDamaged. Without Repair nothing is written to the device. A missing
// program is ErrToolMissing; a blank device, ErrNotFormatted; other content, a
// [*ContentError].
func (d *Disks) Check(ctx context.Context, r CheckRequest) (CheckResult, error) {
	result := make(chan CheckResult, 1)
	err := d.use(ctx, "check", r.Device, func(ctx context.Context, dev *Device) error {
		checked, err := dev.probeAndCheck(ctx, r.Repair)
		result <- checked
		return err
	})
	if err != nil {
		return CheckResult{}, err
	}
	return <-result, nil
}

func (d *Device) probeAndCheck(ctx context.Context, repair bool) (CheckResult, error) {
	if repair && d.Info().ReadOnly {
		return CheckResult{}, ErrReadOnly
	}
	if err := d.checkUnused(ctx); err != nil {
		return CheckResult{}, err
	}
	c, err := d.Probe(ctx)
	if err != nil {
		return CheckResult{}, err
	}
	fsType, err := fileSystemOf(c)
	if err != nil {
		return CheckResult{}, err
	}
	if repair {
		repaired, err := d.Repair(ctx, fsType)
		return CheckResult{FSType: fsType, Repaired: repaired}, err
	}
	return CheckResult{FSType: fsType}, d.inspect(ctx, fsType)
}

func isExt(fsType string) bool { return strings.HasPrefix(fsType, "ext") }

// The bits of the exit status of fsck(8).
const (
	fsckRepaired   = 1 | 2
	fsckUnrepaired = 4
)

// Repair runs fsck -a on a file system of ext2 or its successors, and does nothing for
// other file systems. It reports whether there were errors that fsck has repaired. The
// caller has claimed the device, which is not in use.
func (d *Device) Repair(ctx context.Context, fsType string) (repaired bool, err error) {
	if err := checkType(fsType); err != nil {
		return false, err
	}
	if !isExt(fsType) {
		return false, nil
	}
	outcome := make(chan bool, 1)
	err = d.change(ctx, progress.Check, func() error {
		is, err := d.repair(ctx, fsType)
		outcome <- is
		return err
	})
	select {
	case repaired = <-outcome:
	default: // abandoned
	}
	return repaired, err
}

// repair runs the program that fsck(8) starts: fsck(8) itself would pass on the path.
func (d *Device) repair(ctx context.Context, fsType string) (repaired bool, err error) {
	err = d.run(ctx, "fsck."+fsType, "-a", inherited)
	var failure *ToolError
	switch {
	case ctx.Err() != nil && err != nil:
		return false, uncertain(fmt.Errorf("%w: %w", context.Cause(ctx), err))
	case !errors.As(err, &failure):
		return false, err
	case failure.ExitCode > 0 && failure.ExitCode&fsckUnrepaired != 0:
		return false, fmt.Errorf("%w: %w", ErrDamaged, err)
	case failure.ExitCode > 0 && failure.ExitCode&^fsckRepaired == 0:
		return true, nil
	}
	return false, err
}

// inspectors are the programs that check without writing. Their exit status is not zero if
// the file system has errors.
var inspectors = map[string][]string{
	"ext2": {"fsck.ext2", "-n", inherited}, "ext3": {"fsck.ext3", "-n", inherited}, "ext4": {"fsck.ext4", "-n", inherited},
	"xfs": {"xfs_repair", "-n", inherited}, "btrfs": {"btrfs", "check", "--readonly", inherited},
}

// damaged are the exit statuses that mean errors in the file system; others are failures of
// the program.
var damaged = map[string]int{"ext2": fsckUnrepaired, "ext3": fsckUnrepaired, "ext4": fsckUnrepaired, "xfs": 1, "btrfs": 1}

func (d *Device) inspect(ctx context.Context, fsType string) error {
	_, err := await(ctx, d, progress.Check, func() (struct{}, error) {
		defer d.beginStep(ctx, progress.Check)()
		command := inspectors[fsType]
		err := d.run(ctx, command[0], append([]string(nil), command[1:]...)...)
		var failure *ToolError
		if errors.As(err, &failure) && failure.ExitCode > 0 && failure.ExitCode&damaged[fsType] != 0 {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return struct{}{}, err
	})
	return err
}
