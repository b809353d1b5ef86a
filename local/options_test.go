package local_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// TestOptionsOfFileSystems: a directory has no use for the options of a file system and of fstab.
// They are dropped, and one debug line names them. Its flags apply.
func TestOptionsOfFileSystems(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		var log bytes.Buffer
		logger := slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		n.plugin = local.New(local.Config{Mounter: m, Roots: []string{n.disks}, Logger: logger})
		require.NoError(t, n.plugin.Init(t.Context(), n.host))
		group := int64(os.Getegid())
		for _, test := range []struct {
			options []string
			flags   mount.Flags
			dropped string
		}{
			{[]string{"discard"}, 0, "discard"},
			{[]string{"noexec", "prjquota", "data=ordered"}, mount.NoExec, "prjquota,data=ordered"},
			{[]string{"noexec,x-systemd.device-timeout=10"}, mount.NoExec, "x-systemd.device-timeout=10"},
			{[]string{"relatime,nofail,_netdev,defaults"}, 0, "nofail,_netdev,defaults"},
			{[]string{"errors=remount-ro", "sync"}, 0, "errors=remount-ro,sync"},
			{[]string{"errors=panic", "discard,nodiscard", "norelatime"}, 0, "errors=panic,discard,nodiscard,norelatime"},
			{[]string{`ro,context="system_u:object_r:container_file_t:s0:c1,c2"`}, mount.ReadOnly, `context="system_u:object_r:container_file_t:s0:c1,c2"`},
			{[]string{"noexec", "", "noexec"}, mount.NoExec, ""},
		} {
			for _, args := range []volume.MounterArgs{{}, {FsGroup: &group}} {
				log.Reset()
				mounter := n.mounter(t, spec(n.disks+"/disk", test.options...), "1")
				require.NoError(t, mounter.SetUp(t.Context(), args), test.options)
				up := mountsBelow(t, m, mounter.GetPath())
				require.Len(t, up, 1)
				require.Equal(t, test.flags|mount.NoSUID|mount.NoDev, up[0].Flags, test.options)
				require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
				if test.dropped == "" {
					require.Empty(t, log.String())
					continue
				}
				require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
				require.Contains(t, log.String(), `"level":"DEBUG"`)
				require.Contains(t, log.String(), fmt.Sprintf(`"options":%q`, test.dropped))
			}
		}
	})
}
