package disk_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/disk"
)

// TestZeroDisks: the zero Disks, and nil, refuse every call with an InputError.
func TestZeroDisks(t *testing.T) {
	ctx, result := t.Context(), func(_ any, err error) error { return err }
	for name, d := range map[string]*disk.Disks{"zero": {}, "nil": nil} {
		for call, err := range map[string]error{
			"Use":             d.Use(ctx, vdb, func(context.Context, *disk.Device) error { return nil }),
			"Identify":        result(d.Identify(ctx, vdb)),
			"Probe":           result(d.Probe(ctx, vdb)),
			"Format":          d.Format(ctx, disk.FormatRequest{Device: vdb}),
			"FormatAndMount":  d.FormatAndMount(ctx, disk.MountRequest{Device: vdb, Target: "/target"}),
			"Grow, unmounted": result(d.Grow(ctx, disk.GrowRequest{Device: vdb})),
			"Grow":            result(d.Grow(ctx, disk.GrowRequest{Device: vdb, Target: "/target"})),
			"NeedsGrow":       result(d.NeedsGrow(ctx, disk.GrowRequest{Device: vdb, Target: "/target"})),
		} {
			require.ErrorAs(t, err, new(*disk.InputError), "%s %s", name, call)
		}
	}
}
