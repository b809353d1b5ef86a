package boot

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWritable(t *testing.T) {
	tests := []struct {
		args, want []string
	}{
		{nil, nil},
		{[]string{"-test.v=true", "-test.run=/x", "file", ""}, nil},
		{[]string{"-test.coverprofile=", "-coverprofile=/c/out"}, nil},
		{[]string{"-test.coverprofile=/w/b001/_cover_.out", "-test.gocoverdir=/w/b001/gocoverdir"}, []string{"/w/b001", "/w/b001/gocoverdir"}},
		{[]string{"-test.cpuprofile=/w/cpu", "--test.memprofile=/w/mem"}, []string{"/w"}},
		{[]string{"-test.coverprofile=c.out"}, []string{"/dir"}},
		{[]string{"-test.outputdir=sub"}, []string{"/dir/sub"}},
	}
	for _, test := range tests {
		require.Equal(t, test.want, writable(test.args, "/dir"), test.args)
	}
}

func TestTimeLimit(t *testing.T) {
	tests := []struct {
		args []string
		want time.Duration
	}{
		{nil, time.Hour},
		{[]string{"-test.timeout=0s"}, time.Hour},
		{[]string{"-test.timeout=soon"}, time.Hour},
		{[]string{"-timeout=1m"}, time.Hour},
		{[]string{"-test.v", "-test.timeout=10m0s"}, 10*time.Minute + 30*time.Second},
	}
	for _, test := range tests {
		require.Equal(t, test.want, timeLimit(test.args), test.args)
	}
}

func TestGuestEnv(t *testing.T) {
	got := guestEnv([]string{
		"PATH=/bin", "HOME=/h", "TMPDIR=/elsewhere", "LD_PRELOAD=x", "GOMAXPROCS=1", "GODEBUG=x=1", "EMPTY",
		"VOLUMEKIT_REQUIRE=userns,root", "VOLUMEKIT_COUNT_FILE=/c/count",
	}, "/r")
	require.Equal(t, []string{
		"TMPDIR=/run/tmp", threads, narrowGo, narrowC, "PATH=/bin", "HOME=/h", "GOMAXPROCS=1",
		"VOLUMEKIT_REQUIRE=userns,root", "VOLUMEKIT_COUNT_FILE=/r/count",
	}, got)
}
