package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/initrd"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestLibraries(t *testing.T) {
	const program = "/bin/sh"
	if loader, err := interpreter(program); err != nil || loader == "" {
		mounttest.SkipWithout(t, "libraries", fmt.Sprintf("%s is no program with shared libraries here: %v", program, err))
	}
	entries, err := libraries(program)
	require.NoError(t, err)
	there := map[string]bool{".": true}
	var files []string
	for _, e := range entries {
		require.False(t, there[e.Name], "%s twice", e.Name)
		require.True(t, there[path.Dir(e.Name)], "%s before its directory", e.Name)
		there[e.Name] = true
		if e.Mode == initrd.Executable {
			want, err := os.ReadFile("/" + e.Name)
			require.NoError(t, err)
			require.Equal(t, want, e.Data)
			files = append(files, path.Base(e.Name))
		}
	}
	require.Contains(t, strings.Join(files, " "), "libc.")
	require.GreaterOrEqual(t, len(files), 2, "a loader and the C library")
}

func TestNoLibraries(t *testing.T) {
	entries, err := libraries("/proc/self/exe")
	if errors.Is(err, fs.ErrNotExist) {
		mounttest.SkipWithout(t, "libraries", err)
	}
	require.NoError(t, err)
	if loader, _ := interpreter("/proc/self/exe"); loader == "" {
		require.Empty(t, entries)
	}
	_, err = libraries("/dev/null")
	require.Error(t, err)
}
