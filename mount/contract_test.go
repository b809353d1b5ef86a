package mount_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestContractFake(t *testing.T) {
	mounttest.TestInterface(t, func(_ *testing.T, config mount.Config) mount.Interface {
		return mounttest.NewFake(config)
	})
}

// TestContract: the mounter keeps the contract of mounters with each tier of system calls.
func TestContract(t *testing.T) {
	for _, tier := range []mount.Tier{mount.TierAuto, mount.TierClassic, mount.TierDetached, mount.TierTreeAttr} {
		t.Run(tier.String(), func(t *testing.T) {
			skipWithoutTier(t, tier)
			if !mounttest.Namespace(t) {
				return
			}
			mounttest.TestInterface(t, func(t *testing.T, config mount.Config) mount.Interface {
				config.Tier = tier
				config.StagingDir = filepath.Join(t.TempDir(), "staging")
				return mount.New(config)
			}, exceptionsFor(tier)...)
		})
	}
}

// exceptionsFor returns options that leave out the tests of the contract that the Mounter cannot
// pass with a tier.
func exceptionsFor(tier mount.Tier) []mounttest.TestOption {
	if tier == mount.TierClassic || len(mount.Tiers()) == 1 {
		return []mounttest.TestOption{mounttest.Except("SubmountsUnderOthers", "mount(2) cannot reach a hidden mount")}
	}
	return nil
}

// skipWithoutTier skips the test if the kernel does not offer the tier.
func skipWithoutTier(t *testing.T, tier mount.Tier) {
	t.Helper()
	if tier != mount.TierAuto && !slices.Contains(mount.Tiers(), tier) {
		mounttest.SkipWithout(t, "tier-"+tier.String(), "the kernel is too old")
	}
}
