package mount

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/volumekit/volumekit/mount/internal/text"
)

// Describe returns one line about the mount for logs and messages: "nfs4 server:/export on
// /mnt (ro,nosuid,nodev), mount 57 in 23". Names with unusual characters are quoted, long
// ones shortened. The options of the file system are omitted: they can contain secrets.
func (i Info) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", text.Quote(i.FSType), describeSource(i))
	if i.Root != "/" {
		fmt.Fprintf(&b, "[%s]", text.Quote(i.Root))
	}
	if i.Deleted {
		b.WriteString(" (deleted)")
	}
	fmt.Fprintf(&b, " on %s (%v), mount %d in %d", text.Quote(i.Mountpoint), i.Flags, i.ID, i.Parent)
	if len(i.Tags) > 0 {
		fmt.Fprintf(&b, ", %s", strings.Join(i.Tags, " "))
	}
	return b.String()
}

func describeSource(i Info) string {
	if i.Source == "" {
		return `""`
	}
	return text.Quote(i.Source)
}

// LogValue implements [slog.LogValuer] with the facts of Describe as attributes.
func (i Info) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Int("id", i.ID),
		slog.Int("parent", i.Parent),
		slog.String("device", fmt.Sprintf("%d:%d", i.Major, i.Minor)),
		slog.String("type", text.Shorten(i.FSType)),
		slog.String("source", text.Shorten(i.Source)),
		slog.String("root", text.Shorten(i.Root)),
		slog.Bool("deleted", i.Deleted),
		slog.String("mountpoint", text.Shorten(i.Mountpoint)),
		slog.String("flags", i.Flags.String()),
		slog.Any("propagation", i.Tags),
	)
}
