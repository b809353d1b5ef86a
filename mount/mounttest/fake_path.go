package mounttest

import (
	"os"
	"path/filepath"
	"runtime"

	"github.com/volumekit/volumekit/internal/tablepath"
)

// trustedLinks returns the path on which symbolic links are followed, or "".
func trustedLinks() string {
	if runtime.GOOS == "linux" {
		return ""
	}
	return tablepath.Of(filepath.Clean(os.TempDir()))
}
