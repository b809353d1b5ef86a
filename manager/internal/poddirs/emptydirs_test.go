package poddirs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRemoveEmptyDirs: empty directories of volumes go, with those above them; all others stay.
func TestRemoveEmptyDirs(t *testing.T) {
	for name, test := range map[string]struct{ dirs, gone, stay []string }{
		"a pod":               {[]string{"a"}, []string{"a"}, nil},
		"of a volume":         {[]string{"a/volumes/p"}, []string{"a"}, nil},
		"of a device":         {[]string{"a/volumeDevices/p"}, []string{"a"}, nil},
		"of an old plugin":    {[]string{"a/plugins/p/vol"}, []string{"a"}, nil},
		"of parts of volumes": {[]string{"a/volume-subpaths/vol/0"}, []string{"a"}, nil},
		"a volume":            {[]string{"a/volumes/p/vol", "a/volumes/q"}, []string{"a/volumes/q"}, []string{"a/volumes/p/vol"}},
		"a device":            {[]string{"a/volumeDevices/p/vol"}, nil, []string{"a/volumeDevices/p/vol"}},
		"a part of a volume":  {[]string{"a/volume-subpaths/vol/0/c"}, nil, []string{"a/volume-subpaths/vol/0/c"}},
		"containers":          {[]string{"a/containers", "a/volumes/p"}, []string{"a/volumes"}, []string{"a/containers"}},
		"another pod":         {[]string{"a/volumes/p/vol", "b/volumes"}, []string{"b"}, []string{"a/volumes/p/vol"}},
		"of the file system":  {[]string{"lost+found", "a"}, []string{"a"}, []string{"lost+found"}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for _, dir := range test.dirs {
				require.NoError(t, os.MkdirAll(filepath.Join(root, "pods", dir), 0o755))
			}
			RemoveEmptyDirs(root, NamesOrNone, os.Remove)
			for _, dir := range test.gone {
				require.NoDirExists(t, filepath.Join(root, "pods", dir))
			}
			for _, dir := range test.stay {
				require.DirExists(t, filepath.Join(root, "pods", dir))
			}
		})
	}
}
