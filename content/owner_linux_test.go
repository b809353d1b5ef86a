package content_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// owner returns a file's user, group and permissions.
func owner(t *testing.T, name string) string {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d %d %#o", stat.Uid, stat.Gid, info.Mode().Perm())
}
