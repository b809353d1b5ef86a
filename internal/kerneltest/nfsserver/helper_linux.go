package nfsserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volumekit/volumekit/internal/kerneltest/kernels"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// Helper returns a directory with the program mount.nfs, which exists until the test ends. If
// the program is not in the cache the test is skipped for want of "mount.nfs".
func Helper(t testing.TB) (dir string) {
	t.Helper()
	requireServer(t)
	p, err := kernels.FindMountNFS()
	if err != nil {
		mounttest.SkipWithout(t, kernels.MountNFS, err)
	}
	dir = t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nGLIBC_TUNABLES='%s' exec '%s' \"$@\"\n",
		os.Getenv("GLIBC_TUNABLES"), strings.Join(p.Command, "' '"))
	if err := os.WriteFile(filepath.Join(dir, kernels.MountNFS), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
