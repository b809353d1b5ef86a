package voldata

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestParse: files of a kubelet and of this module, and broken ones.
func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		text string
		want Data
		bad  string
	}{
		"pod of a kubelet": {
			text: `{"attachmentID":"csi-1","driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h","volumeLifecycleMode":"Persistent"}` + "\n",
			want: Data{SpecVolumeID: "pv", VolumeHandle: "h", DriverName: "d", NodeName: "n", AttachmentID: "csi-1", LifecycleMode: Persistent},
		},
		"staging of a kubelet": {text: `{"driverName":"d","volumeHandle":"h"}`, want: Data{VolumeHandle: "h", DriverName: "d"}},
		"label":                {text: `{"driverName":"d","volumeHandle":"h","seLinuxMountContext":"l"}`, want: Data{VolumeHandle: "h", DriverName: "d", SELinux: "l"}},
		"unknown key":          {text: `{"driverName":"d","volumeHandle":"h","later":"x"}`, want: Data{VolumeHandle: "h", DriverName: "d"}},
		"call": {
			text: `{"driverName":"d","volumeHandle":"h","volumekit.io/call":"{\"boot\":\"b\",\"request\":\"YQ==\"}","volumekit.io/state":"d"}`,
			want: Data{VolumeHandle: "h", DriverName: "d", Call: &Call{Boot: "b", State: Done, Request: []byte("a")}},
		},
		"sent":          {text: `{"driverName":"d","volumeHandle":"h","volumekit.io/call":"{\"boot\":\"b\"}","volumekit.io/state":"s"}`, want: Data{VolumeHandle: "h", DriverName: "d", Call: &Call{Boot: "b"}}},
		"unknown state": {text: `{"driverName":"d","volumeHandle":"h","volumekit.io/call":"{\"boot\":\"b\"}","volumekit.io/state":"x"}`, want: Data{VolumeHandle: "h", DriverName: "d", Call: &Call{Boot: "b"}}},
		"broken call":   {text: `{"driverName":"d","volumeHandle":"h","volumekit.io/call":"{"}`, want: Data{VolumeHandle: "h", DriverName: "d"}},
		"empty":         {text: "", bad: "unexpected end"},
		"torn":          {text: `{"driverName":"d","volumeHa`, bad: "unexpected end"},
		"zeros":         {text: strings.Repeat("\x00", 100), bad: "invalid character"},
		"no strings":    {text: `{"driverName":1,"volumeHandle":"h"}`, bad: "cannot unmarshal"},
		"null":          {text: `null`, bad: "names no volume"},
		"no driver":     {text: `{"volumeHandle":"h"}`, bad: "names no volume"},
		"no handle":     {text: `{"driverName":"d"}`, bad: "names no volume"},
		"too long":      {text: strings.Repeat(" ", MaxSize+1), bad: "at most"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse([]byte(test.text))
			if test.bad != "" {
				require.ErrorContains(t, err, test.bad)
				require.Zero(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
			text, err := got.Text()
			require.NoError(t, err)
			again, err := Parse(text)
			require.NoError(t, err)
			require.Equal(t, got, again)
		})
	}
}

// TestText: the text of a volume has the kubelet's keys, in the order of a kubelet, and no empty ones.
func TestText(t *testing.T) {
	text, err := Data{SpecVolumeID: "pv", VolumeHandle: "h", DriverName: "d", NodeName: "n", LifecycleMode: Ephemeral}.Text()
	require.NoError(t, err)
	require.Equal(t, `{"driverName":"d","nodeName":"n","specVolID":"pv","volumeHandle":"h","volumeLifecycleMode":"Ephemeral"}`+"\n", string(text))
	_, err = Data{VolumeHandle: strings.Repeat("h", MaxSize)}.Text()
	require.ErrorContains(t, err, "less than")
}

// TestWithState: the original keeps its state.
func TestWithState(t *testing.T) {
	d := Data{Call: &Call{Boot: "b"}}
	require.Equal(t, Failed, d.WithState(Failed).Call.State)
	require.Equal(t, Sent, d.Call.State)
}

// TestStateIsOneByte: files that differ in the state of their call alone differ in one byte, which may be
// written in place.
func TestStateIsOneByte(t *testing.T) {
	d := Data{DriverName: "d", VolumeHandle: "h", Call: &Call{Boot: "b", Request: []byte("request")}}
	first, err := d.Text()
	require.NoError(t, err)
	for _, state := range []State{Sent, Done, Failed, Reverting, Skipped} {
		text, err := d.WithState(state).Text()
		require.NoError(t, err)
		require.Len(t, text, len(first))
		different := 0
		for i := range text {
			if text[i] != first[i] {
				different++
			}
		}
		require.Equal(t, state != Sent, different == 1, "%s", text)
		again, err := Parse(text)
		require.NoError(t, err)
		require.Equal(t, state, again.Call.State)
	}
}

// FuzzParse: any file is decoded to a volume, or refused; the text of a decoded one decodes to the
// same volume.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"driverName":"d","volumeHandle":"h","volumekit.io/call":"{\"boot\":\"b\",\"request\":\"YQ==\"}"}`))
	f.Add([]byte(`{"driverName":"\ud800","volumeHandle":"h","specVolID":"../.."}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := Parse(text)
		if err != nil {
			require.Zero(t, d)
			return
		}
		out, err := d.Text()
		if err != nil {
			return // escapes make a text longer
		}
		again, err := Parse(out)
		require.NoError(t, err)
		require.True(t, d.SameVolume(again))
		require.Equal(t, d.SpecVolumeID, again.SpecVolumeID)
	})
}
