package table_test

import (
	"testing"

	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/internal/table"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) {
	table.SetHelpers(
		func(t *testing.T) bool { t.Helper(); return mounttest.Namespace(t) },
		func(t testing.TB, thing string, why any) { t.Helper(); mounttest.SkipWithout(t, thing, why) },
		testbed.Attacks, testbed.Seed,
	)
	mounttest.Main(m, nil)
}
