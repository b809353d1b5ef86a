package manager_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volumekit/volumekit/manager"
)

// TestString: an event, a mounted volume and a leftover print as one short line, without what their fields point
// to, and with the parts that are known.
func TestString(t *testing.T) {
	for _, test := range []struct {
		value any
		text  string
	}{
		{manager.Event{}, ""},
		{manager.Event{Type: "Warning", Reason: "FailedMount", PodUID: "uid-1", Volume: "files", Message: "no disk", Err: errors.New("x")},
			"Warning FailedMount uid-1 files: no disk"},
		{manager.Event{Type: "Normal", Reason: "VolumeVanished", Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}}, PodUID: "uid-1", Unique: "x/y"},
			"Normal VolumeVanished ns/web x/y"},
		{manager.Event{Type: "Normal", Pod: &v1.Pod{}, PodUID: "uid-1"}, "Normal uid-1"},
		{manager.Event{Message: "a\nb"}, "a b"},
		{manager.MountedVolume{}, ""},
		{manager.MountedVolume{Name: "files", Plugin: "example.com/p", Path: "/a/b"}, "files example.com/p /a/b"},
		{manager.MountedVolume{Name: "files", Plugin: "example.com/p", Path: "/a/b", ReadOnly: true}, "files example.com/p /a/b: read-only"},
		{manager.MountedVolume{Name: "disk", Plugin: "example.com/p", Path: "/dev/x", ReadOnly: true, Block: true}, "disk example.com/p /dev/x: block device, read-only"},
		{manager.Leftover{}, ""},
		{manager.Leftover{Path: "/a/b\x1b[2K", Err: errors.New("no plugin")}, "/a/b [2K: no plugin"},
		{manager.Leftover{Path: "/a", Pod: "uid-1", Plugin: "example.com/p", Volume: "v", Err: errors.New("unknown")}, "/a uid-1 example.com/p: unknown"},
	} {
		require.Equal(t, test.text, fmt.Sprint(test.value))
	}
	long := strings.Repeat("n", 1<<20)
	for _, value := range []fmt.Stringer{
		manager.Event{Message: long, Volume: long}, manager.MountedVolume{Path: long}, manager.Leftover{Path: long, Err: errors.New(long)},
	} {
		require.Less(t, len(value.String()), 4096)
	}
}
