package recordstore

import (
	"os"
	"testing"
)

// IsSameRegular compares an entry with an open file.
var IsSameRegular = isSameRegular

// SetSync replaces the sync of files and directories during a test.
func SetSync(t *testing.T, sync func(*os.File) error) {
	before := syncFile
	syncFile = sync
	t.Cleanup(func() { syncFile = before })
}
