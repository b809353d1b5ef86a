package mountinfo

import (
	"strings"

	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/record"
)

// EntryFrom returns the entry of a record of [record.WantLine].
func EntryFrom(r record.Record) Entry {
	root, deleted := strings.CutSuffix(string(r.RootPath()), record.DeletedMark)
	return Entry{
		ID: int(r.TableID), Parent: int(r.TableParentID),
		Major: r.Major, Minor: r.Minor,
		Root: root, Deleted: deleted,
		Mountpoint:   string(r.MountPoint()),
		Flags:        options.FlagsOf(r.Attrs),
		Options:      r.MountOptions(),
		Tags:         r.PropagationTags(),
		FSType:       r.FSType(),
		Source:       string(r.Bytes(record.WantSource, r.SourceAt)),
		SuperOptions: optionlist.JoinLabels(r.SuperOptions()),
	}
}
