package mount_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testflag"
	"github.com/volumekit/volumekit/mount"
	"golang.org/x/sys/unix"
)

// TestSELinuxLabels mounts with labels on a kernel with SELinux, and reads them back, from files
// and from the mount table. It loads a policy into the kernel, so it runs in a guest alone.
func TestSELinuxLabels(t *testing.T) {
	if !testflag.Required("selinux") {
		t.Skip("needs selinux: a guest whose kernel has SELinux and no policy")
	}
	loadPolicy(t)
	dir := mkdirs(t, "target", "staging")
	target := dir + "/target"
	const label, oneLevel = "system_u:object_r:container_file_t:s0:c1,c3", "system_u:object_r:container_file_t:s0"
	for _, tier := range []mount.Tier{mount.TierAuto, mount.TierClassic} {
		m := mount.New(mount.Config{StagingDir: dir + "/staging", Tier: tier, Allow: mount.Allow{Context: true}})
		for _, test := range []struct{ option, printed, label string }{
			{`context="` + label + `"`, `context="` + label + `"`, label},
			{`rootcontext="` + label + `"`, `rootcontext="` + label + `"`, label},
			{`context="` + oneLevel + `"`, "context=" + oneLevel, oneLevel},
			{"context=" + oneLevel, "context=" + oneLevel, oneLevel},
		} {
			req := mount.Request{Source: "x", Target: target, FSType: "tmpfs", Options: []string{test.option, "mode=0711"}}
			require.NoError(t, m.Mount(t.Context(), req), "%s: %s", tier, test.option)
			require.NoError(t, m.Mount(t.Context(), req), "Mount is idempotent")
			table, err := m.List(t.Context())
			require.NoError(t, err)
			i := slices.IndexFunc(table, func(i mount.Info) bool { return i.Mountpoint == target })
			require.Contains(t, table[i].SuperOptions, test.printed)
			require.Contains(t, table[i].SuperOptions, "mode=711")
			buf := make([]byte, 256)
			n, err := unix.Getxattr(target, "security.selinux", buf)
			require.NoError(t, err)
			require.Equal(t, test.label, string(bytes.TrimRight(buf[:n], "\x00")))
			require.NoError(t, m.Unmount(t.Context(), target))
		}
	}
}

// loadPolicy gives SELinux a policy.
func loadPolicy(t *testing.T) {
	parameters, err := os.ReadFile("/proc/cmdline")
	require.NoError(t, err)
	require.Contains(t, string(parameters), " uml_dir=", "no policy for a kernel that is not the test's own")
	policy, err := os.ReadFile("testdata/selinux/policy")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("selinuxfs", dir, "selinuxfs", 0, ""), "the kernel's parameter security=selinux")
	defer func() { require.NoError(t, unix.Unmount(dir, 0)) }()
	require.NoError(t, os.WriteFile(dir+"/load", policy, 0))
}
