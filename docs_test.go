package volumekit_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadmeRooms: the README names each package that programs may import.
func TestReadmeRooms(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	rooms := map[string]bool{}
	require.NoError(t, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch name := filepath.Base(path); {
		case err != nil || path == ".":
			return err
		case entry.IsDir():
			if strings.HasPrefix(name, ".") || name == "internal" || name == "testdata" || name == "examples" || name == "bench" || name == "agents" {
				return filepath.SkipDir
			}
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
			rooms[filepath.ToSlash(filepath.Dir(path))] = true
		}
		return nil
	}))
	delete(rooms, ".")
	require.Greater(t, len(rooms), 20)
	for room := range rooms {
		require.Contains(t, string(readme), "`"+room+"`")
	}
}

// TestReadmePrograms: each Go text in the README is a whole file of an example, which is
// compiled and run there. A file of package main alone would not link.
func TestReadmePrograms(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	var files []string
	for _, name := range []string{"examples/embed/node/volume.go", "examples/embed/node/manager.go", "controllers/examples/embed/agent.go"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		files = append(files, string(text))
	}
	var texts []string
	for _, block := range strings.Split(string(readme), "```go\n")[1:] {
		text, _, ok := strings.Cut(block, "```")
		require.True(t, ok)
		require.NotContains(t, text, "package main\n")
		texts = append(texts, text)
	}
	require.Equal(t, files, texts)
}

// TestOtherPackages: the doc of package volume names the packages to use instead of it, and they exist.
func TestOtherPackages(t *testing.T) {
	doc, err := os.ReadFile("volume/doc.go")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(doc), "// # When not to use it\n")
	require.True(t, ok)
	for _, other := range []string{"mount", "csi/driver", "controllers/provision"} {
		require.Regexp(t, `\b`+other+`\b`, section)
		require.FileExists(t, other+"/doc.go")
	}
}
