package contract

import (
	"math"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/volumekit/volumekit/internal/require"
	"github.com/volumekit/volumekit/volume"
)

// An argument is a test of one field of volume.MounterArgs.
type argument struct {
	name     string // of the field
	handling Handling
	args     volume.MounterArgs
	bad      []volume.MounterArgs // invalid values
	// check verifies a volume that is set up with an honoured argument.
	check func(spec *volume.Spec, mounter volume.Mounter)
}

// badIDs returns invalid IDs. math.MaxUint32 means "no change" to chown(2).
func badIDs() []int64 { return []int64{-1, math.MinInt64, math.MaxUint32, math.MaxInt64} }

func (c *contract) fsUser() {
	id := c.otherUser()
	a := argument{name: "FsUser", handling: c.Arguments.FsUser, args: volume.MounterArgs{FsUser: &id}}
	if a.handling == Refused { // not configured: every plugin must accept it
		a.handling = Ignored
	}
	for _, bad := range badIDs() {
		a.bad = append(a.bad, volume.MounterArgs{FsUser: &bad})
	}
	a.check = func(spec *volume.Spec, mounter volume.Mounter) { c.requireUser(a, spec, mounter) }
	c.argument(a)
}

func (c *contract) fsGroup() {
	id := c.otherGroup()
	a := argument{name: "FsGroup", handling: c.Arguments.FsGroup, args: volume.MounterArgs{FsGroup: &id}}
	for _, bad := range badIDs() {
		a.bad = append(a.bad, volume.MounterArgs{FsGroup: &bad})
	}
	a.check = func(spec *volume.Spec, mounter volume.Mounter) { c.requireGroup(a, spec, mounter) }
	c.argument(a)
	c.requireManaged(a)
	if a.handling == Honoured {
		c.readOnlyKeepsOwners(a.args)
	}
}

func (c *contract) desiredSize() {
	size := resource.NewQuantity(64<<20, resource.BinarySI)
	a := argument{name: "DesiredSize", handling: c.Arguments.DesiredSize, args: volume.MounterArgs{DesiredSize: size}}
	for _, bad := range []string{"-1", "1e99999999"} {
		q := resource.MustParse(bad)
		a.bad = append(a.bad, volume.MounterArgs{DesiredSize: &q})
	}
	a.check = func(_ *volume.Spec, mounter volume.Mounter) { c.requireSize(a, mounter) }
	c.argument(a)
}

func (c *contract) seLinuxLabel() {
	require.Equal(c, c.SELinuxRelabel, c.newMounter(c.unchangedSpec(c.Spec())).GetAttributes().SELinuxRelabel,
		"GetAttributes about SELinux labels")
	c.argument(argument{
		name:     "SELinuxLabel",
		handling: c.Arguments.SELinuxLabel,
		args:     volume.MounterArgs{SELinuxLabel: "system_u:object_r:container_file_t:s0:c1,c2"},
		check:    func(*volume.Spec, volume.Mounter) {},
	})
}

func (c *contract) argument(a argument) {
	c.Helper()
	switch a.handling {
	case Refused:
		c.argumentRefused(a)
	case Ignored:
		c.argumentIgnored(a)
	case Honoured:
		c.argumentHonoured(a)
	default:
		c.Fatalf("Config.Arguments: no Handling has the value %d", a.handling)
	}
}

// argumentRefused tests a volume that is not set up, and one that is.
func (c *contract) argumentRefused(a argument) {
	c.Helper()
	spec := c.filledVolume()
	mounter := c.newMounter(spec)
	refused := func() {
		c.Helper()
		before, owners := c.state(), c.owners(spec, mounter)
		err := mounter.SetUp(c.Context(), a.args)
		require.ErrorIs(c, err, volume.ErrNotSupported, "the argument was not refused"+a.hint())
		require.Equal(c, volume.Final, volume.KindOf(err))
		c.requireUnchanged(before, "a refused argument changed something")
		require.Equal(c, owners, c.owners(spec, mounter), "a refused argument changed owners or modes")
	}
	refused()
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	refused()
	c.mustTearDown(spec)
}

func (c *contract) argumentIgnored(a argument) {
	c.Helper()
	spec := c.filledVolume()
	mounter := c.newMounter(spec)
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	owners := c.owners(spec, mounter)
	for _, compare := range []func(map[string]owned) any{
		func(of map[string]owned) any { return of },
		countOwned, // of a new volume, in which the names of sets differ
	} {
		require.NoError(c, mounter.SetUp(c.Context(), a.args), "it is up, and the argument is ignored"+a.hint())
		require.Equal(c, compare(owners), compare(c.owners(spec, mounter)), "an ignored argument has an effect"+a.hint())
		c.requireUp(mounter.GetPath())
		c.mustTearDown(spec)
	}
}

// countOwned returns the number of files with each owner and mode.
func countOwned(owners map[string]owned) any {
	count := map[owned]int{}
	for _, is := range owners {
		count[is]++
	}
	return count
}

func (c *contract) argumentHonoured(a argument) {
	c.Helper()
	spec := c.filledVolume()
	for _, bad := range a.bad {
		c.requireBad(spec, a, bad)
	}
	mounter := c.newMounter(spec)
	for range 2 {
		require.NoError(c, mounter.SetUp(c.Context(), a.args), "the argument is honoured"+a.hint())
		c.requireUp(mounter.GetPath())
		a.check(spec, mounter)
		up := c.state()
		c.verbSetUpWith(c.restarted(), spec, a.args)
		c.requireUnchanged(up, "setting up what is up as asked changed something")
		a.check(spec, mounter)
		c.mustTearDown(spec)
	}
}

func (c *contract) requireBad(spec *volume.Spec, a argument, bad volume.MounterArgs) {
	c.Helper()
	mounter := c.newMounter(spec)
	before, owners := c.state(), c.owners(spec, mounter)
	err := mounter.SetUp(c.Context(), bad)
	require.Error(c, err, "an argument that cannot be was accepted"+a.hint())
	require.Equal(c, volume.Final, volume.KindOf(err), "%v", err)
	require.Less(c, len(err.Error()), 1024)
	c.requireUnchanged(before, "an argument that cannot be changed something")
	require.Equal(c, owners, c.owners(spec, mounter), "an argument that cannot be changed owners or modes")
}

// requireManaged verifies that exactly the plugins that manage ownership report it.
func (c *contract) requireManaged(a argument) {
	c.Helper()
	require.Equal(c, a.handling == Honoured, c.newMounter(c.unchangedSpec(c.Spec())).GetAttributes().Managed,
		"GetAttributes about ownership: the volume is writable"+a.hint())
}

// readOnlyKeepsOwners verifies that a shared volume does not change for a pod with a read-only
// claim.
func (c *contract) readOnlyKeepsOwners(args volume.MounterArgs) {
	c.Helper()
	if c.Ephemeral {
		return
	}
	spec := copyOf(c.filledVolume())
	spec.ReadOnly = true
	mounter := c.newMounter(spec)
	require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
	owners := c.owners(spec, mounter)
	c.mustTearDown(spec)
	require.NoError(c, mounter.SetUp(c.Context(), args))
	require.Equal(c, owners, c.owners(spec, mounter), "a read-only volume has changed owners or modes"+hintEphemeral)
	c.mustTearDown(spec)
}

func (c *contract) requireSize(a argument, mounter volume.Mounter) {
	c.Helper()
	if c.fake() != nil || c.NoMetrics {
		return
	}
	metrics, err := mounter.GetMetrics(c.Context())
	require.NoError(c, err)
	require.NotNil(c, metrics.Capacity)
	require.LessOrEqual(c, metrics.Capacity.Value(), a.args.DesiredSize.Value(), "the volume is larger than asked"+a.hint())
}

// filledVolume returns a volume, ready for pods, with files that are private to the test's user, if
// the volume allows that.
func (c *contract) filledVolume() *volume.Spec {
	c.Helper()
	spec := c.spec()
	fake := c.fake() != nil
	switch {
	case c.Backing != nil:
		c.fill(c.Backing(spec))
	case !fake && !c.Ephemeral && !c.RuntimeReadOnly:
		mounter := c.newMounter(spec)
		require.NoError(c, mounter.SetUp(c.Context(), volume.MounterArgs{}))
		c.fill(mounter.GetPath())
		c.mustTearDown(spec)
	}
	return spec
}

func (c *contract) fill(dir string) {
	c.Helper()
	private := filepath.Join(dir, "private")
	require.NoError(c, os.Mkdir(private, 0o700))
	require.NoError(c, os.WriteFile(filepath.Join(private, "file"), []byte("precious"), 0o600))
	require.NoError(c, os.Symlink("file", filepath.Join(private, "link")))
}
