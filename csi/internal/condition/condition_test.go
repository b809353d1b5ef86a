package condition

import (
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// usage is an encoded answer without a condition.
func usage(t testing.TB) []byte {
	text, err := proto.Marshal(&csipb.NodeGetVolumeStatsResponse{Usage: []*csipb.VolumeUsage{{Unit: csipb.VolumeUsage_BYTES, Total: 7}}})
	require.NoError(t, err)
	return text
}

// encoded returns an answer with a field 2 of any bytes.
func encoded(t testing.TB, inner string) []byte {
	return protowire.AppendString(protowire.AppendTag(usage(t), 2, protowire.BytesType), inner)
}

// answer decodes an answer as gRPC does.
func answer(text []byte) (*csipb.NodeGetVolumeStatsResponse, error) {
	a := new(csipb.NodeGetVolumeStatsResponse)
	return a, proto.Unmarshal(text, a)
}

// TestOf: the condition of a driver with the specification up to v1.12, as bytes.
func TestOf(t *testing.T) {
	for name, test := range map[string]struct {
		text []byte
		want Condition
		ok   bool
	}{
		"none":          {text: usage(t)},
		"normal":        {text: encoded(t, ""), ok: true},
		"abnormal":      {text: encoded(t, "\x08\x01\x12\x03bad"), want: Condition{Abnormal: true, Message: "bad"}, ok: true},
		"unknown field": {text: encoded(t, "\x1a\x01x\x12\x02ok"), want: Condition{Message: "ok"}, ok: true},
		"twice":         {text: append(encoded(t, "\x08\x01"), "\x12\x04\x12\x02ok"...), want: Condition{Abnormal: true, Message: "ok"}, ok: true},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := answer(test.text)
			require.NoError(t, err)
			got, ok := Of(a)
			require.Equal(t, test.ok, ok)
			require.Equal(t, test.want, got)
		})
	}
}

// TestOfHostile: a condition that cannot be decoded is none, or its answer is refused.
func TestOfHostile(t *testing.T) {
	for _, inner := range []string{"\x08", "\x12\x05x", "\x12", "\xff"} {
		a, err := answer(encoded(t, inner))
		if err != nil {
			continue // the Go package has the field
		}
		got, ok := Of(a)
		require.False(t, ok)
		require.Zero(t, got)
	}
	if a, err := answer(encoded(t, "\x12\x01\xff")); err == nil {
		got, ok := Of(a)
		require.True(t, ok)
		require.Equal(t, "\uFFFD", got.Message)
	}
}

// TestSet: a condition is read back, also after its way over a connection, and the rest of the answer stays.
func TestSet(t *testing.T) {
	for _, want := range []Condition{{}, {Message: "ok"}, {Abnormal: true, Message: "bad\n"}} {
		a, err := answer(usage(t))
		require.NoError(t, err)
		require.NoError(t, Set(a, want))
		text, err := proto.Marshal(a)
		require.NoError(t, err)
		received, err := answer(text)
		require.NoError(t, err)
		for _, a := range []*csipb.NodeGetVolumeStatsResponse{a, received} {
			got, ok := Of(a)
			require.True(t, ok)
			require.Equal(t, want, got)
			require.Equal(t, int64(7), a.GetUsage()[0].GetTotal())
		}
	}
}
