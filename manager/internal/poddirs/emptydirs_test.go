package poddirs

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/safepath"
)

// TestRemoveEmptyDirs: empty directories of volumes go, with those above them; all others stay.
// Names that end with "+", and notes, are files with a byte, others with "-" are empty files.
func TestRemoveEmptyDirs(t *testing.T) {
	for name, test := range map[string]struct{ dirs, gone, stay []string }{
		"a pod":               {[]string{"a"}, []string{"a"}, nil},
		"of a volume":         {[]string{"a/volumes/p"}, []string{"a"}, nil},
		"of a device":         {[]string{"a/volumeDevices/p"}, []string{"a"}, nil},
		"of an old plugin":    {[]string{"a/plugins/p/vol"}, []string{"a"}, nil},
		"a note":              {[]string{"a/plugins/p/vol/ready", "a/plugins/p/vol/ready.new"}, []string{"a"}, nil},
		"another file":        {[]string{"a/plugins/p/vol/ready", "a/plugins/p/vol/data+"}, []string{"a/plugins/p/vol/ready"}, []string{"a/plugins/p/vol/data+"}},
		"a note of a volume":  {[]string{"a/plugins/p/vol/ready", "a/volumes/p/vol"}, nil, []string{"a/plugins/p/vol/ready", "a/volumes/p/vol"}},
		"a kubelet's note":    {[]string{"a/plugins/p/wrapped_vol/ready", "a/volumes/q/vol"}, nil, []string{"a/plugins/p/wrapped_vol/ready", "a/volumes/q/vol"}},
		"of another volume":   {[]string{"a/plugins/p/vol/ready", "a/volumes/p/v2"}, []string{"a/plugins"}, []string{"a/volumes/p/v2"}},
		"of parts of volumes": {[]string{"a/volume-subpaths/vol/0"}, []string{"a"}, nil},
		"a volume":            {[]string{"a/volumes/p/vol", "a/volumes/q"}, []string{"a/volumes/q"}, []string{"a/volumes/p/vol"}},
		"a device":            {[]string{"a/volumeDevices/p/vol"}, nil, []string{"a/volumeDevices/p/vol"}},
		"rest of a part":      {[]string{"a/volume-subpaths/vol/c/0"}, []string{"a"}, nil},
		"rests of parts":      {[]string{"a/volume-subpaths/vol/c/0-", "a/volume-subpaths/v2/c/1", "a/volumes/p"}, []string{"a"}, nil},
		"a file of a part":    {[]string{"a/volume-subpaths/vol/c/0+", "a/volume-subpaths/vol/c/1-"}, []string{"a/volume-subpaths/vol/c/1-"}, []string{"a/volume-subpaths/vol/c/0+"}},
		"deep in a part":      {[]string{"a/volume-subpaths/vol/c/0/d", "a/volume-subpaths/vol/d/0/-"}, nil, []string{"a/volume-subpaths/vol/c/0/d", "a/volume-subpaths/vol/d/0/-"}},
		"of a known volume":   {[]string{"a/volumes/p/vol", "a/volume-subpaths/vol/c/0", "a/volume-subpaths/vol/d/1-"}, nil, []string{"a/volume-subpaths/vol/c/0", "a/volume-subpaths/vol/d/1-"}},
		"of a known device":   {[]string{"a/volumeDevices/p/vol", "a/volume-subpaths/vol/c/0"}, nil, []string{"a/volume-subpaths/vol/c/0"}},
		"no part":             {[]string{"a/volume-subpaths/-", "a/volume-subpaths/v/-"}, nil, []string{"a/volume-subpaths/-", "a/volume-subpaths/v/-"}},
		"containers":          {[]string{"a/containers", "a/volumes/p"}, []string{"a/volumes"}, []string{"a/containers"}},
		"another pod":         {[]string{"a/volumes/p/vol", "b/volumes"}, []string{"b"}, []string{"a/volumes/p/vol"}},
		"of the file system":  {[]string{"lost+found", "a"}, []string{"a"}, []string{"lost+found"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, name := range test.dirs {
				name := filepath.Join(root, "pods", name)
				require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
				switch {
				case strings.HasSuffix(name, "+"), strings.HasPrefix(filepath.Base(name), "ready"):
					require.NoError(t, os.WriteFile(name, []byte("x"), 0o600))
				case strings.HasSuffix(name, "-"):
					require.NoError(t, os.WriteFile(name, nil, 0o600))
				default:
					require.NoError(t, os.MkdirAll(name, 0o755))
				}
			}
			RemoveEmptyDirs(root, Disk{
				NamesIn: Names,
				Rmdir:   func(dir string) error { return safepath.Rmdir(t.Context(), dir) },
				RemoveMountPoint: func(name string) error {
					err := safepath.Rmdir(t.Context(), name)
					if errors.Is(err, syscall.ENOTDIR) {
						err = safepath.RemoveEmptyFile(t.Context(), name)
					}
					return err
				},
				RemoveNote: func(dir string) error { return podvolume.RemoveNoteFiles(t.Context(), dir) },
			})
			for _, name := range test.gone {
				_, err := os.Lstat(filepath.Join(root, "pods", name))
				require.ErrorIs(t, err, fs.ErrNotExist, name)
			}
			for _, name := range test.stay {
				_, err := os.Lstat(filepath.Join(root, "pods", name))
				require.NoError(t, err, name)
			}
		})
	}
}
