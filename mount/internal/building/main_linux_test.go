package building_test

import (
	"testing"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) {
	building.SetHelpers(
		func(t *testing.T) bool { t.Helper(); return mounttest.Namespace(t) },
		func(t testing.TB, thing string, why any) { t.Helper(); mounttest.SkipWithout(t, thing, why) },
	)
	mounttest.Main(m, nil)
}
