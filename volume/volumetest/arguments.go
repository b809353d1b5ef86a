package volumetest

import "github.com/volumekit/volumekit/volume/volumetest/internal/contract"

// A Handling is the reaction of a plugin to an argument of [volume.MounterArgs].
type Handling = contract.Handling

const (
	// Refused: SetUp fails with a final error that wraps volume.ErrNotSupported, and
	// changes nothing.
	Refused Handling = contract.Refused
	// Ignored: the plugin's documentation says that the argument has no effect. The
	// volume is set up as without it, and its files keep owners and modes.
	Ignored Handling = contract.Ignored
	// Honoured: the volume has the effect, see [Arguments]; an invalid value is refused
	// with a final error before anything is changed.
	Honoured Handling = contract.Honoured
)

// Arguments lists the reaction of a plugin to each argument of [volume.MounterArgs] that not
// all plugins support. All arguments that are not mentioned, but FsUser, must be refused: a
// pod must not get less than it requests without an error.
type Arguments struct {
	// FsUser honoured: the user can read the files in the volume, and owns those that only
	// the owner can read. Otherwise it must be ignored, which is no less than a pod
	// requests: many volumes have one user, and it owns the files made for it alone.
	FsUser Handling
	// FsGroup honoured: the files in the volume belong to the group, which can read them;
	// and also write to them, and directories are set-group-ID, unless GetAttributes says
	// that the volume is read-only: then all users may read directories, too. If the
	// specification is read-only, owners and modes stay, except in an ephemeral volume.
	FsGroup Handling
	// DesiredSize honoured: GetMetrics of the volume, on a real kernel, returns no larger
	// capacity.
	DesiredSize Handling
	// SELinuxLabel honoured: the volume is set up. Its label is not tested.
	SELinuxLabel Handling
}
