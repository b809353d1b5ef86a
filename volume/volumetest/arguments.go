package volumetest

// A Handling is what a plugin does about an argument of [volume.MounterArgs].
type Handling int

const (
	// Refused: SetUp fails with a final error that wraps volume.ErrNotSupported, and
	// changes nothing.
	Refused Handling = iota
	// Ignored: the plugin's documentation says that the argument has no effect. The
	// volume comes up as it does without it, and what is in it keeps owners and modes.
	Ignored
	// Honoured: the volume is as asked, see [Arguments]; a value that is wrong is
	// refused with a final error before anything is changed.
	Honoured
)

// Arguments says what a plugin does about each argument of [volume.MounterArgs] that
// not all plugins know. Of what is not mentioned, but FsUser, it is tested that it is
// refused: a pod does not get less than it has asked for without being told.
type Arguments struct {
	// FsUser honoured: the user can read what is in the volume, and owns what only the
	// owner can read. Otherwise it is tested that it is ignored, which is no less than
	// a pod asks for: many have one user, and it owns what is made for it alone.
	FsUser Handling
	// FsGroup honoured: what is in the volume is the group's, which can read it; and
	// also write to it, and directories are set-group-ID, unless GetAttributes says that
	// the volume is read-only: then directories may be everybody's to look into, too. If
	// the specification is read-only, owners and modes stay, but in an ephemeral volume.
	FsGroup Handling
	// DesiredSize honoured: GetMetrics of the volume, on a real kernel, has no larger
	// capacity.
	DesiredSize Handling
	// SELinuxLabel honoured: the volume comes up. That it has the label is not tested.
	SELinuxLabel Handling
}
