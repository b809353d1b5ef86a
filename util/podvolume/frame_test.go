package podvolume_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A calledKeeper records the directories of its calls.
type calledKeeper struct{ calls []string }

func (k *calledKeeper) GetMetrics(_ context.Context, dir string) (*volume.Metrics, error) {
	k.calls = append(k.calls, "metrics "+dir)
	return &volume.Metrics{}, nil
}

func (k *calledKeeper) TearDown(_ context.Context, dir string) error {
	k.calls = append(k.calls, "down "+dir)
	return nil
}

// TestFrame: the methods with a directory work on it, the others on the volume's path.
func TestFrame(t *testing.T) {
	keeper := &calledKeeper{}
	attributes := volume.Attributes{ReadOnly: true}
	setUp := func(_ context.Context, dir string, args volume.MounterArgs) error {
		keeper.calls = append(keeper.calls, "up "+dir+" "+args.SELinuxLabel)
		return nil
	}
	mounter, unmounter := podvolume.NewMounter(keeper, "/own", attributes, setUp), podvolume.NewUnmounter(keeper, "/own")
	require.Equal(t, "/own", mounter.GetPath())
	require.Equal(t, "/own", unmounter.GetPath())
	require.Equal(t, attributes, mounter.GetAttributes())
	ctx, args := t.Context(), volume.MounterArgs{SELinuxLabel: "label"}
	for _, v := range []volume.Volume{mounter, unmounter} {
		_, err := v.GetMetrics(ctx)
		require.NoError(t, err)
	}
	require.NoError(t, mounter.SetUp(ctx, args))
	require.NoError(t, mounter.SetUpAt(ctx, "/other", args))
	require.NoError(t, unmounter.TearDown(ctx))
	require.NoError(t, unmounter.TearDownAt(ctx, "/other"))
	require.Equal(t, []string{"metrics /own", "metrics /own", "up /own label", "up /other label", "down /own", "down /other"}, keeper.calls)
}

// TestFrameWithoutKeeper: what is missing is refused when it is needed.
func TestFrameWithoutKeeper(t *testing.T) {
	mounter, unmounter := podvolume.NewMounter(nil, "/own", volume.Attributes{}, nil), podvolume.NewUnmounter(nil, "/own")
	_, err := mounter.GetMetrics(t.Context())
	for name, err := range map[string]error{"keeper": err, "setUp": mounter.SetUp(t.Context(), volume.MounterArgs{})} {
		requireField(t, name, err)
	}
	requireField(t, "keeper", unmounter.TearDown(t.Context()))
}

func requireField(t *testing.T, name string, err error) {
	t.Helper()
	var refused *field.Error
	require.ErrorAs(t, err, &refused)
	require.Equal(t, name, refused.Field)
}
